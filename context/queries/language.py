"""What is asked of a language's trees.

Names of captures in `definitions`, one match each:
  def.KIND   what is defined; KIND as in `symbol_types`, or "declared": C's declarators say which (@declarator),
             or "member": a field that a method assigns
  region     encloses definitions and gives them a scope without being one
  name       its name; the first pattern that finds a name counts
  scope      names in front of it, as a method's receiver
  body, head where the body begins; where the signature ends, where that is not the body
  import     an import: with module, name, alias, star (everything), default, namespace; with names, a node that holds any
             number of them; with tree, a path as text
  is.WORD    the text must be one of WORDS[WORD]
  skip       names in here are neither used nor defined
A pattern must not wait for anything behind a list of any length: each entry would be a match in progress, and the time their
square. So such lists are captured as a whole.
In `uses`: use, call, comment, and skip: a name that is only said.
"""

from __future__ import annotations

from dataclasses import dataclass

WORDS = {
    "require": frozenset({"require"}),
    "self": frozenset({"self", "cls"}),
    "attr": frozenset({"attr_accessor", "attr_reader", "attr_writer"}),
    "ruby": frozenset({"require", "require_relative", "load"}),
    "source": frozenset({"source", "."}),
    "import": frozenset({"@import"}),
    "id": frozenset({"id"}),
    "src": frozenset({"src"}),
    "href": frozenset({"href"}),
    "link": frozenset({"link"}),
    "define": frozenset({"define"}),
}


@dataclass(frozen=True, slots=True)
class LanguageQueries:
    """blocks: nodes whose named children are statements. bodies: nodes that are a definition's body where no field says so.
    separator: between the parts of an imported path. doc_inside: a definition's doc string stands in its body."""

    definitions: str
    uses: str
    blocks: tuple[str, ...] = ()
    bodies: tuple[str, ...] = ()
    separator: str = "."
    doc_inside: bool = False
