"""The harness: what surrounds the agent model and what merchants edit all day.

Four modules, each with its own digest: prompt (ordered blocks, limits), tools (definitions and their bindings),
skills, hooks.

*Meaning and surface.* A tool's meaning is the capability it is bound to; its name, description, parameter names and
order are surface. A skill's meaning is its `kind` and the families it `handles`; its name, description and wording are
surface. Everything that compares behaviour (replay, rewards, evaluation) compares meaning, so a rename can never
change what is right.
"""

import hashlib
import json
from collections.abc import Collection, Mapping
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

FORMAT_VERSION = 1

Language = Literal["en", "zh"]  # what the simulator speaks and understands


class Capability(StrEnum):
    """What the simulated live stream can do. `decoy` marks a tool that is listed but never right to call."""

    PRICE_LOOKUP = "price_lookup"
    STOCK_LOOKUP = "stock_lookup"
    COUPON_LOOKUP = "coupon_lookup"
    VARIANT_LOOKUP = "variant_lookup"
    SHIPPING_LOOKUP = "shipping_lookup"
    ATTRIBUTE_LOOKUP = "attribute_lookup"
    COMPARE_LOOKUP = "compare_lookup"
    RETURN_POLICY_LOOKUP = "return_policy_lookup"
    FLASH_SALE_LOOKUP = "flash_sale_lookup"
    ORDER_STATUS_LOOKUP = "order_status_lookup"
    ON_AIR_LOOKUP = "on_air_lookup"
    PRODUCT_SEARCH = "product_search"
    LOAD_SKILL = "load_skill"
    RECORDED = "recorded"
    DECOY = "decoy"


# Canonical arguments of each capability: name -> (JSON type, required).
CAPABILITY_ARGUMENTS: dict[Capability, dict[str, tuple[str, bool]]] = {
    Capability.PRICE_LOOKUP: {"link_id": ("integer", True)},
    Capability.STOCK_LOOKUP: {"link_id": ("integer", True), "variant": ("string", False)},
    Capability.COUPON_LOOKUP: {"link_id": ("integer", True)},
    Capability.VARIANT_LOOKUP: {"link_id": ("integer", True)},
    Capability.SHIPPING_LOOKUP: {"city": ("string", True), "link_id": ("integer", False)},
    Capability.ATTRIBUTE_LOOKUP: {"link_id": ("integer", True), "attribute": ("string", True)},
    Capability.COMPARE_LOOKUP: {"link_ids": ("array", True)},
    Capability.RETURN_POLICY_LOOKUP: {"link_id": ("integer", True)},
    Capability.FLASH_SALE_LOOKUP: {"link_id": ("integer", True)},
    Capability.ORDER_STATUS_LOOKUP: {"order_id": ("string", True)},
    Capability.ON_AIR_LOOKUP: {},
    Capability.PRODUCT_SEARCH: {"query": ("string", True)},
    Capability.LOAD_SKILL: {"skill": ("string", True)},
    Capability.RECORDED: {},
    Capability.DECOY: {},
}


class Family(StrEnum):
    """What a viewer's message asks for; decides the required facts of a reply."""

    PRICE = "price"
    STOCK = "stock"
    COUPON = "coupon"
    PRICE_AFTER_COUPON = "price_after_coupon"
    VARIANT = "variant"
    SHIPPING = "shipping"
    ATTRIBUTES = "attributes"
    COMPARE = "compare"
    RETURN_POLICY = "return_policy"
    FLASH_SALE = "flash_sale"
    ORDER_STATUS = "order_status"
    ON_AIR = "on_air"
    SEARCH = "search"
    UNKNOWN_LINK = "unknown_link"
    CHIT_CHAT = "chit_chat"
    OUT_OF_SCOPE = "out_of_scope"
    FORBIDDEN_CLAIM = "forbidden_claim"
    INJECTION = "injection"
    OUTAGE = "outage"


class HookPoint(StrEnum):
    BEFORE_TURN = "before_turn"
    BEFORE_CALL = "before_call"
    BEFORE_REPLY = "before_reply"


class HookCheck(StrEnum):
    INPUT_VALID = "input_valid"
    TOOL_ARGUMENTS = "tool_arguments"
    SKILL_LOADED = "skill_loaded"
    REPLY_LENGTH = "reply_length"
    REPLY_FORMAT = "reply_format"
    FACT_CHECK = "fact_check"
    FORBIDDEN_WORDING = "forbidden_wording"


_set_slot = object.__setattr__  # a frozen model allows no other


class Frozen(BaseModel):
    """Immutable, strict about unknown fields: a typo in a merchant's file is an error, not silence."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with `update` (not validated). Cached properties are computed anew: pydantic's own copy would carry
        the old ones over. Without extras and private attributes to look after it is also three times as fast, and
        augmentation makes sixty copies a variant.
        """
        kind = type(self)
        copy = super().model_copy(deep=True) if deep else kind.__new__(kind)
        fields = (copy if deep else self).__dict__.copy()
        if len(fields) > len(kind.__pydantic_fields__):
            fields = {name: value for name, value in fields.items() if name in kind.__pydantic_fields__}
        fields_set = self.__pydantic_fields_set__
        if update:
            fields.update(update)
            if not update.keys() <= fields_set:
                fields_set = fields_set.union(update)
        _set_slot(copy, "__dict__", fields)
        _set_slot(copy, "__pydantic_fields_set__", fields_set)
        _set_slot(copy, "__pydantic_extra__", None)
        _set_slot(copy, "__pydantic_private__", None)
        return copy


class PromptBlock(Frozen):
    """One block of the system prompt: prose in `text`, or a list of rules in `items`."""

    id: str = Field(min_length=1)
    kind: Literal["identity", "style", "rules", "context"]
    text: str = ""
    items: tuple[str, ...] = ()


class Limits(Frozen):
    """Numeric limits, shown in the prompt and enforced by the simulator."""

    reply_words: int = Field(ge=8, le=120)  # words of one reply
    tool_calls: int = Field(ge=2, le=12)  # calls for one viewer message, load_skill included
    turns: int = Field(ge=1, le=20)  # viewer messages of one episode


class Tool(Frozen):
    """One function tool: `parameters` is a JSON schema object as in OpenAI's `tools`."""

    name: str
    description: str
    parameters: dict[str, Any]

    def argument_names(self) -> tuple[str, ...]:
        return tuple(self.parameters.get("properties", {}))

    def required(self) -> tuple[str, ...]:
        return tuple(self.parameters.get("required", ()))

    def as_openai(self) -> dict[str, Any]:
        return {"type": "function", "function": self.model_dump()}


class Binding(Frozen):
    """What a tool means: a capability, and surface argument name -> canonical argument name."""

    capability: Capability
    arguments: dict[str, str] = Field(default_factory=dict)


class Skill(Frozen):
    """A Markdown module. The prompt lists name and description; the body is shown once loaded.

    `handles` (not rendered) gives the families it is the right reply skill for; a decoy skill handles none.
    """

    name: str
    description: str
    kind: Literal["reply", "strategy"] = "reply"
    handles: tuple[Family, ...] = ()
    body: str = ""


class Hook(Frozen):
    """A check at a fixed point; a failing check sends `message` and the agent may try again `retries` times.

    `arguments` by check: `forbidden_wording: {"words": [...]}`; `reply_format: {"ends_with": str, "address": str}`
    (both optional; the reply must end with / contain that text). The other checks take none: their numbers are the
    harness's `limits`.
    """

    id: str
    point: HookPoint
    check: HookCheck
    retries: int = Field(default=1, ge=0, le=5)
    message: str
    arguments: dict[str, Any] = Field(default_factory=dict)

    def forbidden_words(self) -> list[str]:
        """The words that this hook forbids; none for every other check and for malformed arguments."""
        words = self.arguments.get("words") if self.check == HookCheck.FORBIDDEN_WORDING else None
        return [word for word in words if isinstance(word, str) and word] if isinstance(words, list | tuple) else []


class Harness(Frozen):
    """One state of one merchant's harness. Equality and digests are by content."""

    format: Literal[1] = FORMAT_VERSION
    merchant: str
    language: Language = "en"
    prompt: tuple[PromptBlock, ...]
    limits: Limits
    tools: tuple[Tool, ...]
    bindings: dict[str, Binding]
    skills: tuple[Skill, ...]
    hooks: tuple[Hook, ...]

    @cached_property
    def digests(self) -> dict[str, str]:
        """Content digest (16 hex digits of SHA-256) of each of the four modules."""
        parts = {
            "prompt": [
                [block.model_dump(mode="json") for block in self.prompt],
                self.limits.model_dump(),
                self.language,
            ],
            "tools": [
                [tool.model_dump() for tool in self.tools],
                {name: binding.model_dump(mode="json") for name, binding in sorted(self.bindings.items())},
            ],
            "skills": [skill.model_dump(mode="json") for skill in self.skills],
            "hooks": [hook.model_dump(mode="json") for hook in self.hooks],
        }
        return {name: content_digest(part) for name, part in parts.items()}

    @cached_property
    def digest(self) -> str:
        """Digest of the whole harness, merchant and format included."""
        return content_digest([self.format, self.merchant, self.digests])

    def keeping(self, *, tools: Collection[str] | None = None, skills: Collection[str] | None = None) -> "Harness":
        """A copy with only the named tools (and their bindings) and skills; None keeps all."""
        update: dict[str, Any] = {}
        if tools is not None:
            update["tools"] = tuple(tool for tool in self.tools if tool.name in tools)
            update["bindings"] = {name: binding for name, binding in self.bindings.items() if name in tools}
        if skills is not None:
            update["skills"] = tuple(skill for skill in self.skills if skill.name in skills)
        return self.model_copy(update=update)

    @cached_property
    def reply_hooks(self) -> tuple[Hook, ...]:
        """Those that check a reply, in order."""
        return tuple(hook for hook in self.hooks if hook.point == HookPoint.BEFORE_REPLY)

    def tool(self, name: str) -> Tool | None:
        return self._tools_by_name.get(name)

    def skill(self, name: str) -> Skill | None:
        return next((skill for skill in self.skills if skill.name == name), None)

    def tools_for(self, capability: Capability) -> tuple[Tool, ...]:
        """Tools bound to `capability`, in prompt order; empty when the merchant has none."""
        return self._tools_by_capability.get(capability, ())

    def reply_skill_for(self, family: Family) -> Skill | None:
        """The first reply skill that handles `family`."""
        return next((skill for skill in self.reply_skills if family in skill.handles), None)

    @cached_property
    def reply_skills(self) -> tuple[Skill, ...]:
        """Reply skills that handle something: neither strategies nor decoys."""
        return tuple(skill for skill in self.skills if skill.kind == "reply" and skill.handles)

    @cached_property
    def _tools_by_name(self) -> dict[str, Tool]:
        """Of several tools of one name (lint finds them) the first counts."""
        return {tool.name: tool for tool in reversed(self.tools)}

    @cached_property
    def _tools_by_capability(self) -> dict[Capability, tuple[Tool, ...]]:
        found: dict[Capability, tuple[Tool, ...]] = {}
        for tool in self.tools:
            if tool.name in self.bindings:
                capability = self.bindings[tool.name].capability
                found[capability] = (*found.get(capability, ()), tool)
        return found


def content_digest(value: Any) -> str:
    """16 hex digits of the SHA-256 of canonical JSON: the project's content digest everywhere."""
    canonical = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]
