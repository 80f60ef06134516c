"""The true state of the stream at a simulated moment, and events that change stream and harness.

Events take effect when a viewer's message arrives: within one turn the stream stands still, so a reply is judged by the
state that the turn's tools could see.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from components.avatar.harness.schema import Harness, Limits
from components.avatar.simulator.catalogue import Catalogue, Product, clock_of, seconds_of
from components.avatar.simulator.scenario import StreamEvent

STREAM_KINDS = frozenset({"price", "stock", "flash_sale", "on_air"})


class Stream:
    """The catalogue with the changes of the stream's first `at_s` simulated seconds."""

    def __init__(self, catalogue: Catalogue, events: Sequence[StreamEvent] = (), on_air: int | None = None) -> None:
        self.catalogue = catalogue
        self.on_air = on_air
        self.at_s = 0.0
        self._pending = sorted(events, key=lambda event: event.at_s) if events else []
        self._price: dict[int, Decimal] = {}
        self._stock: dict[int, int] = {}
        self._flash: dict[int, tuple[Decimal, float]] = {}

    def advance(self, at_s: float) -> list[StreamEvent]:
        """Moves the clock to `at_s`, applies the stream's due events, and returns the due events of the harness."""
        self.at_s = at_s
        harness_events = []
        while self._pending and self._pending[0].at_s <= at_s:
            event = self._pending.pop(0)
            if event.kind in STREAM_KINDS:
                self._apply(event)
            else:
                harness_events.append(event)
        return harness_events

    def product(self, link: Any) -> Product | None:
        return self.catalogue.by_link.get(link)

    def price(self, product: Product) -> Decimal:
        """List price: coupons apply to it, a flash sale does not change it."""
        return self._price.get(product.link_id, product.price.amount)

    def stock(self, product: Product) -> int:
        return self._stock.get(product.link_id, product.stock)

    def flash(self, product: Product) -> tuple[Decimal, str] | None:
        """(price, time of day when it ends) while a flash sale runs."""
        if product.link_id in self._flash:
            price, ends = self._flash[product.link_id]
            return (price, clock_of(ends)) if self.at_s < ends else None
        sale = product.flash_sale
        if sale is None or not seconds_of(sale.starts) <= self.at_s < seconds_of(sale.ends):
            return None
        return sale.price, sale.ends

    def _apply(self, event: StreamEvent) -> None:
        value = event.value
        link = value["link_id"]
        if event.kind == "price":
            self._price[link] = Decimal(value["amount"])
        elif event.kind == "stock":
            self._stock[link] = value["stock"]
        elif event.kind == "flash_sale":
            self._flash[link] = (Decimal(value["price"]), float(value["ends_s"]))
        else:
            self.on_air = link


def apply_harness_event(harness: Harness, event: StreamEvent) -> Harness:
    """The harness after an operator's edit. An edit of a tool that the harness does not have (any more) changes
    nothing.
    """
    value = event.value
    if event.kind == "rule_added":
        blocks = tuple(
            block.model_copy(update={"items": (*block.items, value["item"])}) if block.id == value["block"] else block
            for block in harness.prompt
        )
        return harness.model_copy(update={"prompt": blocks})
    if event.kind == "limit_changed":
        return harness.model_copy(update={"limits": Limits(**{**harness.limits.model_dump(), **value})})
    name = value["from"] if event.kind == "tool_renamed" else value["name"]
    if harness.tool(name) is None:
        return harness
    bindings = dict(harness.bindings)
    if event.kind == "tool_withdrawn":
        bindings.pop(name, None)
        tools = tuple(tool for tool in harness.tools if tool.name != name)
    else:
        bindings = {value["to"] if key == name else key: binding for key, binding in bindings.items()}
        tools = tuple(
            tool.model_copy(update={"name": value["to"]}) if tool.name == name else tool for tool in harness.tools
        )
    return harness.model_copy(update={"tools": tools, "bindings": bindings})


def rename_in_events(events: Sequence[StreamEvent], renamed: dict[str, str]) -> tuple[StreamEvent, ...]:
    """The same edits under a renamed harness (`renamed`: original tool name -> new one), so that a replay means the
    same.
    """
    out = []
    for event in events:
        value = {key: renamed.get(item, item) if key in ("from", "name") else item for key, item in event.value.items()}
        out.append(event.model_copy(update={"value": value}) if event.kind.startswith("tool_") else event)
    return tuple(out)


def changes_until(events: Sequence[StreamEvent], at: float) -> tuple[StreamEvent, ...]:
    """The stream's changes up to `at` seconds, moved to second 0, for an episode that begins then.

    Edits of the harness are left out: they reach a running agent by hot reload. So is `on_air`: a scenario says it.
    """
    due = []
    for event in events:
        if event.at_s > at or event.kind not in STREAM_KINDS or event.kind == "on_air":
            continue
        value = dict(event.value)
        if event.kind == "flash_sale":
            value["ends_s"] = max(0, int(value["ends_s"] - at))
        due.append(event.model_copy(update={"at_s": 0.0, "value": value}))
    return tuple(due)
