"""Form rules of a reply, counted from the harness: length, address and ending, forbidden words."""

from components.avatar.harness.schema import Harness, HookCheck, HookPoint
from components.evaluation.verifier_tokens import tokenize

_EDGES = "¿¡.,;:!?()[]{}\"'“”‘’…"


def plain_words(text: str) -> list[str]:
    """Words between blanks in lower case, without punctuation at their edges."""
    return [word for piece in text.lower().split() if (word := piece.strip(_EDGES))]


def broken_forms(text: str, harness: Harness) -> list[str]:
    """Ids of the form rules that `text` breaks; `reply_words` where no hook backs the limit."""
    length = len(text.split())
    rules = {hook.check: hook.id for hook in harness.hooks}
    broken = []
    if not 0 < length <= harness.limits.reply_words:
        broken.append(rules.get(HookCheck.REPLY_LENGTH, "reply_words"))
    for hook in harness.hooks:
        if hook.point != HookPoint.BEFORE_REPLY:
            continue
        if hook.check == HookCheck.REPLY_FORMAT:
            ending = str(hook.arguments.get("ends_with") or "").strip()
            address = str(hook.arguments.get("address") or "").strip()
            if not text.rstrip().endswith(ending) or not _occurs(address, text):
                broken.append(hook.id)
        elif hook.check == HookCheck.FORBIDDEN_WORDING:
            words = [word for word in hook.arguments.get("words", ()) if isinstance(word, str) and word.strip()]
            if any(_occurs(word, text) for word in words):
                broken.append(hook.id)
    return broken


def _occurs(phrase: str, text: str) -> bool:
    """Whether the tokens of `phrase` stand in `text` one after the other; signs without letters as they are."""
    wanted = [token.text for token in tokenize(phrase)]
    if not any(char.isalnum() for char in phrase):
        return phrase in text
    found = [token.text for token in tokenize(text)]
    return any(found[at : at + len(wanted)] == wanted for at in range(len(found) - len(wanted) + 1))
