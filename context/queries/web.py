"""JavaScript, TypeScript, HTML, CSS."""

from __future__ import annotations

from context.queries.language import LanguageQueries

_FUNCTION = "[(arrow_function body: (_) @body) (function_expression body: (_) @body) (generator_function body: (_) @body)]"
_REQUIRED = "(call_expression function: (identifier) @is.require arguments: (arguments . (string) @module))"
_DEFINITIONS = f"""
(function_declaration name: (identifier) @name) @def.function
(generator_function_declaration name: (identifier) @name) @def.function
(method_definition name: (_) @name) @def.method
(variable_declarator name: (identifier) @name value: {_FUNCTION}) @def.function
(assignment_expression left: (member_expression property: (property_identifier) @name) right: {_FUNCTION}) @def.function
(pair key: (property_identifier) @name value: {_FUNCTION}) @def.function
(variable_declarator name: (identifier) @name value: (class body: (_) @body)) @def.class
(lexical_declaration kind: "const" (variable_declarator name: (identifier) @name) @def.constant)
(variable_declarator name: (identifier) @name) @def.variable
(import_statement (import_clause (identifier) @default) source: (string) @module) @import
(import_statement (import_clause (namespace_import (identifier) @namespace)) source: (string) @module) @import
(import_statement (import_clause (named_imports) @names) source: (string) @module) @import
(import_statement . source: (string) @module) @import
(export_statement (export_clause) @names source: (string) @module) @import
(export_statement "*" @star source: (string) @module) @import
(variable_declarator name: (identifier) @namespace value: {_REQUIRED}) @import
(variable_declarator name: (object_pattern) @names value: {_REQUIRED}) @import
{_REQUIRED} @import
(call_expression function: (import) arguments: (arguments . (string) @module)) @import
"""
_USES = """
[(identifier) (property_identifier) (shorthand_property_identifier) (private_property_identifier)] @use
(call_expression function: [(identifier) @call (member_expression property: (_) @call)])
(new_expression constructor: [(identifier) @call (member_expression property: (_) @call)])
(comment) @comment
"""
_BLOCKS = ("program", "statement_block", "class_body", "switch_case", "switch_default")

JAVASCRIPT = LanguageQueries(
    definitions=_DEFINITIONS
    + """
(class_declaration name: (identifier) @name) @def.class
(field_definition property: (_) @name) @def.field
""",
    uses=_USES + "(formal_parameters [(identifier) @skip (assignment_pattern left: (identifier) @skip)])",
    blocks=_BLOCKS,
)

TYPESCRIPT = LanguageQueries(
    definitions=_DEFINITIONS
    + """
(class_declaration name: (type_identifier) @name) @def.class
(abstract_class_declaration name: (type_identifier) @name) @def.class
(interface_declaration name: (type_identifier) @name) @def.interface
(type_alias_declaration name: (type_identifier) @name) @def.type
(enum_declaration name: (identifier) @name) @def.enum
(enum_body name: (property_identifier) @name @def.constant)
(enum_assignment name: (property_identifier) @name) @def.constant
(internal_module name: (_) @name) @def.module
(module name: (_) @name) @def.module
(function_signature name: (identifier) @name) @def.function
(method_signature name: (_) @name) @def.method
(abstract_method_signature name: (_) @name) @def.method
(interface_body (property_signature name: (_) @name) @def.field)
(public_field_definition name: (_) @name) @def.field
""",
    uses=_USES
    + """
(type_identifier) @use
[(required_parameter pattern: (identifier) @skip) (optional_parameter pattern: (identifier) @skip)]
""",
    blocks=(*_BLOCKS, "interface_body"),
)

HTML = LanguageQueries(
    definitions="""
(attribute (attribute_name) @is.id (quoted_attribute_value (attribute_value) @name)) @def.constant
(script_element (start_tag (attribute (attribute_name) @is.src (quoted_attribute_value (attribute_value) @module)))) @import
(start_tag (tag_name) @is.link (attribute (attribute_name) @is.href (quoted_attribute_value (attribute_value) @module))) @import
""",
    uses="(comment) @comment",
)

CSS = LanguageQueries(
    definitions="""
(rule_set (selectors (class_selector (class_name) @name))) @def.class
(rule_set (selectors (id_selector (id_name) @name))) @def.class
(keyframes_statement (keyframes_name) @name) @def.function
(import_statement (string_value) @module) @import
(import_statement (call_expression (arguments (_) @module))) @import
""",
    uses="""
[(class_name) (id_name)] @use
(function_name) @call
(comment) @comment
""",
    blocks=("stylesheet", "block"),
    bodies=("block", "keyframe_block_list"),
)
