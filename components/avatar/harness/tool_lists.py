"""Tool lists of other systems: an MCP server's `tools/list`, an OpenAI request's `tools` or older `functions`.

Read: name, description and parameters are kept as they are (references within a schema are written out); everything
else is counted in `dropped`, for the caller to say. Written: `mcp_list`; OpenAI's form is `render.tools_of`.

Formats: Model Context Protocol, revision 2025-11-25, server/tools; OpenAI API reference, chat completions and
responses.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jsonschema.protocols import Validator
from jsonschema.validators import Draft202012Validator, validator_for

from components.avatar.errors import Fault
from components.avatar.harness.files import NO_PARAMETERS, parameter_faults
from components.avatar.harness.references import inlined
from components.avatar.harness.schema import Harness, Tool
from components.avatar.harness.strict import kind_of, parse_json, read_text, shorten, validate

ALLOWED = "an MCP tools/list response, an OpenAI tools array or `functions`"
ENVELOPE = {"jsonrpc", "id", "result", "tools", "functions", "nextCursor"}
SIGNATURE = ("name", "description", "parameters")


@dataclass
class ToolLists:
    """What was read: `tools` by name in order; `dropped`: field that has no place in a harness -> names of its tools;
    `notes`: other things that the operator should know.
    """

    tools: dict[str, Tool] = field(default_factory=dict)
    dropped: dict[str, list[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    places: dict[str, str] = field(default_factory=dict)  # tool name -> where it was defined first

    def add(self, tool: Tool, path: Path, where: str, faults: list[Fault]) -> None:
        """Adds `tool`; the same definition again is noted, another one of that name is a fault."""
        known = self.tools.setdefault(tool.name, tool)
        place = self.places.setdefault(tool.name, f"{path}: {where}")
        if place == f"{path}: {where}":
            return
        if known == tool:
            self.notes.append(f"{tool.name!r} is defined twice in the same words ({place}; {path}: {where}): kept once")
        else:
            allowed = f"a name of its own (another definition stands in {place})"
            faults.append(Fault(str(path), f"{where}.name", shorten(tool.name), allowed))


def read_tool_lists(paths: Sequence[Path], faults: list[Fault]) -> ToolLists:
    """The tools of JSON or JSONL files, in order. Pages of one `tools/list` follow each other, in one file or several.

    All faults are added to `faults`.
    """
    lists = ToolLists()
    unfinished: Fault | None = None  # a page that says that another one follows
    for path in paths:
        for where, document in _documents(path, lists, faults):
            if isinstance(document, list):
                _read_entries(document, path, where, lists, faults)
                continue
            where, body = _body(document, path, where, faults)
            if body is None:
                continue
            if unfinished is not None and "tools" not in body:
                faults.append(unfinished)
            unfinished = _read_page(body, path, where, lists, faults)
    if unfinished is not None:
        faults.append(unfinished)
    return lists


def _read_page(body: dict, path: Path, where: str, lists: ToolLists, faults: list[Fault]) -> Fault | None:
    """Reads one response or request body. Returns the fault that stands if no further page comes."""
    if "tools" not in body and "functions" not in body:
        faults.append(Fault(str(path), where or "file", f"keys {shorten(sorted(body))}", ALLOWED))
    for key in ("tools", "functions"):
        entries, at = body.get(key, []), _join(where, key)
        if isinstance(entries, list):
            _read_entries(entries, path, at, lists, faults, mcp=key == "tools")
        else:
            faults.append(Fault(str(path), at, kind_of(entries), "a list of tools"))
    other = sorted(set(body) - ENVELOPE)
    if other and ("tools" in body or "functions" in body):
        lists.notes.append(f"not kept from {path}{': ' + where if where else ''}: {', '.join(map(repr, other))}")
    cursor = body.get("nextCursor")
    allowed = "the page that follows it, as the next SOURCE"
    return Fault(str(path), _join(where, "nextCursor"), shorten(cursor), allowed) if cursor else None


def mcp_list(harness: Harness) -> dict[str, Any]:
    """The result of a `tools/list` request with the harness's tools, on one page."""
    tools = [{"name": t.name, "description": t.description, "inputSchema": t.parameters} for t in harness.tools]
    return {"tools": tools}


def _documents(path: Path, lists: ToolLists, faults: list[Fault]) -> Iterator[tuple[str, Any]]:
    """(where, document): a response, a request body or an array of tools. A `.jsonl` may be the log of a whole session
    with a server: its other messages are passed over.
    """
    text = read_text(path, faults)
    if text is None:
        return
    lines = text.split("\n") if path.suffix == ".jsonl" else []
    passed = 0
    for number, part in [(n, line) for n, line in enumerate(lines, 1) if line.strip()] or [(None, text)]:
        before = len(faults)
        value = parse_json(part, path, faults, number)
        if len(faults) > before:
            continue
        where = "" if number is None else f"line {number}"
        if number is not None and _is_other_message(value):
            passed += 1
        elif isinstance(value, list) and value and all(map(_is_page, value)):
            yield from ((_join(where, str(index)), page) for index, page in enumerate(value))
        elif isinstance(value, dict | list):
            yield where, value
        else:
            faults.append(Fault(str(path), where or "file", kind_of(value), ALLOWED))
    if passed:
        lists.notes.append(f"passed over in {path}: {passed} messages that list no tools")


def _is_other_message(value: Any) -> bool:
    """A JSON-RPC request, notification, or the result of another request (an error may be that of tools/list)."""
    if not isinstance(value, dict) or "jsonrpc" not in value or "error" in value:
        return False
    return "method" in value or (isinstance(value.get("result"), dict) and "tools" not in value["result"])


def _is_page(value: Any) -> bool:
    return (
        isinstance(value, dict) and "name" not in value and bool({"jsonrpc", "result", "error", "tools"} & set(value))
    )


def _body(document: dict, path: Path, where: str, faults: list[Fault]) -> tuple[str, dict | None]:
    """(where, mapping) that holds the tools: the result of a JSON-RPC response, else the document itself."""
    if "error" in document and "result" not in document:
        found = f"an error response: {shorten(document['error'])}"
        faults.append(Fault(str(path), _join(where, "error"), found, "a response with a result"))
        return where, None
    if "method" in document:
        found = f"a request: {shorten(document['method'])}"
        faults.append(Fault(str(path), _join(where, "method"), found, "the response to tools/list"))
        return where, None
    if "result" not in document:
        return where, document
    result = document["result"]
    if not isinstance(result, dict):
        faults.append(Fault(str(path), _join(where, "result"), kind_of(result), "a mapping with `tools`"))
        return where, None
    return _join(where, "result"), result


def _read_entries(
    entries: list, path: Path, where: str, lists: ToolLists, faults: list[Fault], mcp: bool = False
) -> None:
    """`mcp`: an entry that names no form of its own is MCP's (which requires a schema), else OpenAI's."""
    for number, entry in enumerate(entries):
        at = _join(where, str(number))
        if not isinstance(entry, dict):
            faults.append(Fault(str(path), at, kind_of(entry), "a tool"))
            continue
        if "inputSchema" in entry or (mcp and "type" not in entry and "function" not in entry):
            _read_mcp(entry, path, at, lists, faults)
        elif entry.get("type", "function") != "function":
            lists.notes.append(
                f"not kept from {path}: {at}: a tool of type {shorten(entry['type'])}, which the provider runs itself"
            )
        elif "function" in entry:
            function = entry["function"]
            if isinstance(function, dict):
                _read_function(function, set(entry) - {"type", "function"}, path, f"{at}.function", lists, faults)
            else:
                faults.append(Fault(str(path), f"{at}.function", kind_of(function), "a mapping with name, parameters"))
        else:
            _read_function({k: v for k, v in entry.items() if k != "type"}, set(), path, at, lists, faults)


def _read_mcp(entry: dict, path: Path, at: str, lists: ToolLists, faults: list[Fault]) -> None:
    schema = entry.get("inputSchema")
    if not isinstance(schema, dict):
        faults.append(Fault(str(path), f"{at}.inputSchema", kind_of(schema), 'a JSON schema of type "object"'))
        schema = None
    rest = {key: value for key, value in entry.items() if key != "inputSchema"}
    extra = {"parameters"} & set(rest)  # not MCP's: it must not pass for the schema
    rest.pop("parameters", None)
    _keep(
        rest | {"parameters": NO_PARAMETERS if schema is None else schema},
        extra,
        path,
        at,
        "inputSchema",
        lists,
        faults,
    )


def _read_function(function: dict, extra: set[str], path: Path, at: str, lists: ToolLists, faults: list[Fault]) -> None:
    given = {key: value for key, value in function.items() if value is not None or key not in SIGNATURE}
    _keep({"parameters": NO_PARAMETERS} | given, extra, path, at, "parameters", lists, faults)


def _keep(
    given: dict, extra: set[str], path: Path, at: str, schema_key: str, lists: ToolLists, faults: list[Fault]
) -> None:
    """Validates name, description and parameters of one tool and adds it; its other fields are counted as dropped."""
    if given.get("description") is None:
        given = given | {"description": ""}  # optional in both formats; lint asks for one
    dropped = sorted((set(given) - set(SIGNATURE)) | extra)
    before = len(faults)
    tool = validate(Tool, {key: given[key] for key in SIGNATURE if key in given}, path, faults, at)
    if tool is None:
        return
    if not tool.name.strip():
        faults.append(Fault(str(path), f"{at}.name", repr(tool.name), "a name"))
    tool = _plain_properties(_written_out(tool, path, f"{at}.{schema_key}", lists, faults), lists)
    faults.extend(_schema_faults(tool, path, f"{at}.{schema_key}"))
    if len(faults) > before:
        return
    for key in dropped:
        lists.dropped.setdefault(key, []).append(tool.name)
    lists.add(tool, path, at, faults)


def _schema_faults(tool: Tool, path: Path, field: str) -> list[Fault]:
    """Where the parameters break their dialect of JSON schema (2020-12 without `$schema`, as MCP says), and where they
    are no schema of named arguments.
    """
    schema = tool.parameters
    found: dict[str, Fault] = {}
    for error in _dialect(schema).iter_errors(schema):
        where = ".".join([field, *map(str, error.absolute_path)])
        rule = "a type of JSON schema" if error.validator == "anyOf" else f"{error.validator} {error.validator_value}"
        found.setdefault(where, Fault(str(path), where, shorten(error.instance), f"a JSON schema ({rule[:80]})"))
    shape: list[Fault] = []
    parameter_faults(tool, path, field, shape)
    for fault in shape:
        found.setdefault(fault.field, fault)
    return list(found.values())


def _dialect(schema: dict[str, Any]) -> Validator:
    """What judges whether `schema` is well-formed."""
    known = isinstance(schema.get("$schema", ""), str)  # else the rules of 2020-12 say so
    dialect: type[Validator] = validator_for(schema if known else {}, default=Draft202012Validator)
    return dialect(dialect.META_SCHEMA)


def _written_out(tool: Tool, path: Path, field: str, lists: ToolLists, faults: list[Fault]) -> Tool:
    """`tool` without references within its schema; as it is where the schema is not well-formed."""
    if not _dialect(tool.parameters).is_valid(tool.parameters):
        return tool
    parameters = inlined(tool.parameters, path, field, faults)
    if parameters is tool.parameters:
        return tool
    lists.notes.append(f"{tool.name!r}: references within its schema are written out, which means the same")
    return tool.model_copy(update={"parameters": parameters})


def _plain_properties(tool: Tool, lists: ToolLists) -> Tool:
    """The schema `true` (anything) written as `{}`, which says the same: every reader expects a mapping."""
    properties = tool.parameters.get("properties")
    if not isinstance(properties, dict) or True not in [value is True for value in properties.values()]:
        return tool
    plain = {name: {} if value is True else value for name, value in properties.items()}
    lists.notes.append(f"{tool.name!r}: the parameter schema `true` is written as {{}}, which means the same")
    return tool.model_copy(update={"parameters": tool.parameters | {"properties": plain}})


def _join(where: str, part: str) -> str:
    return f"{where}.{part}" if where else part
