"""The dump (format-spec.md, section 20)."""

import base64
import hashlib

from manifest import SCHEMA_KEYS
from recovery import Database, document_of

SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def string(text):
    return '"' + "".join(SHORT.get(c) or (f"\\u{ord(c):04x}" if c < " " else c) for c in text) + '"'


def weight(value):
    """The shortest decimal number that reads back as the same f64, in the form of section 20."""
    digits, exponent = shortest(value)
    if -5 <= exponent <= 15:
        if exponent < 0:
            return "0." + "0" * (-exponent - 1) + digits
        digits = digits.ljust(exponent + 1, "0")
        return f"{digits[:exponent + 1]}.{digits[exponent + 1:] or '0'}"
    return f"{digits[0]}{'.' + digits[1:] if digits[1:] else ''}e{exponent}"


def shortest(value):
    """The digits, without zeros at either end, and e of d.ddd times 10 to the e."""
    mantissa, _, exponent = repr(value).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = whole + fraction
    e = len(whole) - 1 + int(exponent or 0)
    e -= len(digits) - len(digits.lstrip("0"))
    return digits.strip("0"), e


def json_object(*pairs):
    """Pairs of a key and text that is JSON already; None leaves a key out."""
    return "{" + ",".join(f'"{k}":{v}' for k, v in pairs if v is not None) + "}"


def maybe(text):
    return None if text is None else string(text)


def schema_json(schema):
    values = {k: str(v) if k == "dimension" else string(v) for k, v in schema.items() if k not in ("hnsw", "leg_weights")}
    if "hnsw" in schema:
        values["hnsw"] = json_object(*((k, string(v) if k == "quantisation" else v) for k, v in schema["hnsw"].items()))
    if "leg_weights" in schema:
        values["leg_weights"] = json_object(*schema["leg_weights"].items())
    return json_object(*((k, values.get(k)) for k in SCHEMA_KEYS))


def entity_json(e):
    return json_object(("name", string(e.name)), ("kind", maybe(e.kind)), ("mentions", e.mentions))


def relation_json(r):
    return json_object(("source", string(r.source)), ("target", string(r.target)), ("kind", maybe(r.kind)),
                       ("description", maybe(r.description)), ("weight", weight(r.weight)))


def document_json(d):
    entities = None if d.entities is None else "[" + ",".join(map(entity_json, d.entities)) + "]"
    relations = None if d.relations is None else "[" + ",".join(map(relation_json, d.relations)) + "]"
    vector = None if d.vector is None else string(base64.b64encode(d.vector).decode())
    return json_object(("id", string(d.id)), ("text", string(d.text)), ("metadata", maybe(d.metadata)), ("source", maybe(d.source)),
                       ("source_given", "true" if d.source_given else None), ("time_ms", f'"{d.time_ms}"'), ("entities", entities),
                       ("relations", relations), ("vector", vector))


def dump(path):
    """The dump of the database at a path, as bytes."""
    database = Database(path)
    return dump_of(database.load())


def dump_of(collections):
    lines = [json_object(("triune_dump", 1), ("collections", len(collections)))]
    documents = 0
    for life in sorted(collections.values(), key=lambda c: c.name.encode()):
        documents += len(life.live)
        lines.append(json_object(("collection", string(life.name)), ("schema", schema_json(life.schema)), ("documents", f'"{len(life.live)}"')))
        lines += [document_json(document_of(life.live[seq])) for seq in sorted(life.live)]
    before = "".join(line + "\n" for line in lines).encode()
    trailer = json_object(("end", "true"), ("collections", len(collections)), ("documents", f'"{documents}"'),
                          ("sha256", string(hashlib.sha256(before).hexdigest())))
    return before + (trailer + "\n").encode()
