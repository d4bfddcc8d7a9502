"""C, C++, Rust, Go, Zig, Swift."""

from __future__ import annotations

from context.queries.language import LanguageQueries

_C_DEFINITIONS = """
(preproc_def name: (identifier) @name) @def.constant
(preproc_function_def name: (identifier) @name) @def.function
(struct_specifier name: (type_identifier) @name body: (_) @body) @def.class
(union_specifier name: (type_identifier) @name body: (_) @body) @def.class
(enum_specifier name: (type_identifier) @name body: (_) @body) @def.enum
(enumerator name: (identifier) @name) @def.constant
(type_definition type: (struct_specifier !name body: (_) @body) declarator: (type_identifier) @name) @def.class
(type_definition type: (union_specifier !name body: (_) @body) declarator: (type_identifier) @name) @def.class
(type_definition type: (enum_specifier !name body: (_) @body) declarator: (type_identifier) @name) @def.enum
(type_definition declarator: (_) @declarator) @def.type
(function_definition declarator: (_) @declarator) @def.declared
(declaration declarator: (_) @declarator) @def.declared
(field_declaration declarator: (_) @declarator) @def.declared
(preproc_include path: (_) @module) @import
"""
_C_USES = """
[(identifier) (type_identifier) (field_identifier)] @use
(call_expression function: [(identifier) @call (field_expression field: (field_identifier) @call)])
(parameter_declaration declarator: [(identifier) @skip (pointer_declarator declarator: (identifier) @skip)])
(comment) @comment
"""
_C_BLOCKS = ("translation_unit", "compound_statement", "declaration_list", "case_statement")

C = LanguageQueries(definitions=_C_DEFINITIONS, uses=_C_USES, blocks=_C_BLOCKS)

CPP = LanguageQueries(
    definitions="""
(template_declaration (class_specifier name: (_) @name body: (_) @body)) @def.class
(template_declaration (struct_specifier name: (_) @name body: (_) @body)) @def.class
(template_declaration (function_definition declarator: (_) @declarator body: (_)? @body)) @def.declared
(template_declaration (declaration declarator: (_) @declarator)) @def.declared
(template_declaration (alias_declaration name: (type_identifier) @name)) @def.type
(template_declaration (concept_definition name: (identifier) @name)) @def.type
"""
    + _C_DEFINITIONS
    + """
(class_specifier name: (_) @name body: (_) @body) @def.class
(struct_specifier name: (template_type) @name body: (_) @body) @def.class
(namespace_definition name: (_) @name body: (_) @body) @def.module
(alias_declaration name: (type_identifier) @name) @def.type
(concept_definition name: (identifier) @name) @def.type
""",
    uses=_C_USES
    + """
(namespace_identifier) @use
(call_expression function: [(qualified_identifier name: (identifier) @call)
  (template_function name: (identifier) @call)
  (qualified_identifier name: (template_function name: (identifier) @call))])
(new_expression type: (type_identifier) @call)
(parameter_declaration declarator: (reference_declarator (identifier) @skip))
""",
    blocks=(*_C_BLOCKS, "field_declaration_list"),
)

RUST = LanguageQueries(
    definitions="""
(function_item name: (identifier) @name) @def.function
(function_signature_item name: (identifier) @name) @def.function
(struct_item name: (type_identifier) @name) @def.class
(union_item name: (type_identifier) @name) @def.class
(enum_item name: (type_identifier) @name) @def.enum
(enum_variant name: (identifier) @name) @def.constant
(trait_item name: (type_identifier) @name) @def.interface
(type_item name: (type_identifier) @name) @def.type
(associated_type name: (type_identifier) @name) @def.type
(mod_item name: (identifier) @name) @def.module
(const_item name: (identifier) @name) @def.constant
(static_item name: (identifier) @name) @def.variable
(macro_definition name: (identifier) @name) @def.function
(field_declaration name: (field_identifier) @name) @def.field
(impl_item type: [(type_identifier) @name (generic_type type: (type_identifier) @name)
  (generic_type type: (scoped_type_identifier name: (type_identifier) @name))
  (scoped_type_identifier name: (type_identifier) @name)]) @region
(use_declaration argument: (_) @tree) @import
(extern_crate_declaration name: (identifier) @module) @import
""",
    uses="""
[(identifier) (type_identifier) (field_identifier)] @use
(call_expression function: [(identifier) @call (scoped_identifier name: (identifier) @call)
  (field_expression field: (field_identifier) @call)
  (generic_function function: [(identifier) @call (scoped_identifier name: (identifier) @call)
    (field_expression field: (field_identifier) @call)])])
(macro_invocation macro: [(identifier) @call (scoped_identifier name: (identifier) @call)])
(parameter pattern: (identifier) @skip)
[(line_comment) (block_comment)] @comment
""",
    blocks=("source_file", "block", "declaration_list"),
    separator="::",
)

GO = LanguageQueries(
    definitions="""
(package_clause (package_identifier) @name) @def.module
(function_declaration name: (identifier) @name) @def.function
(method_declaration receiver: (parameter_list (parameter_declaration type: [
  (type_identifier) @scope (pointer_type (type_identifier) @scope) (generic_type type: (type_identifier) @scope)
  (pointer_type (generic_type type: (type_identifier) @scope))])) name: (field_identifier) @name) @def.method
(type_spec name: (type_identifier) @name type: (struct_type (field_declaration_list) @body)) @def.class
(type_spec name: (type_identifier) @name type: (interface_type "{" @body)) @def.interface
(type_spec name: (type_identifier) @name) @def.type
(type_alias name: (type_identifier) @name) @def.type
(method_elem name: (field_identifier) @name) @def.method
(field_declaration name: (field_identifier) @name) @def.field
(const_spec name: (identifier) @name) @def.constant
(var_spec name: (identifier) @name) @def.variable
(import_spec name: (dot) @star path: (_) @module) @import
(import_spec name: [(package_identifier) (blank_identifier)] @alias path: (_) @module) @import
(import_spec !name path: (_) @module) @import
""",
    uses="""
[(identifier) (type_identifier) (field_identifier) (package_identifier)] @use
(call_expression function: [(identifier) @call (selector_expression field: (field_identifier) @call)])
(parameter_declaration name: (identifier) @skip)
(keyed_element . (literal_element (identifier) @skip))
(comment) @comment
""",
    blocks=("source_file", "statement_list", "field_declaration_list", "interface_type"),
)

ZIG = LanguageQueries(
    definitions="""
(function_declaration name: (identifier) @name) @def.function
(variable_declaration . (identifier) @name (struct_declaration) @body .) @def.class
(variable_declaration . (identifier) @name (union_declaration) @body .) @def.class
(variable_declaration . (identifier) @name (opaque_declaration) @body .) @def.class
(variable_declaration . (identifier) @name (enum_declaration) @body .) @def.enum
(variable_declaration . (identifier) @name (error_set_declaration) @body .) @def.enum
(variable_declaration "const" . (identifier) @name) @def.constant
(variable_declaration . (identifier) @name) @def.variable
(container_field name: (identifier) @name) @def.field
(variable_declaration . (identifier) @namespace
  (builtin_function (builtin_identifier) @is.import (arguments . (string (string_content) @module)))) @import
(builtin_function (builtin_identifier) @is.import (arguments . (string (string_content) @module))) @import
""",
    uses="""
(identifier) @use
(call_expression function: [(identifier) @call (field_expression member: (identifier) @call)])
(parameter name: (identifier) @skip)
(comment) @comment
""",
    blocks=("source_file", "block", "struct_declaration", "enum_declaration", "union_declaration"),
)

SWIFT = LanguageQueries(
    definitions="""
(class_declaration declaration_kind: "enum" name: (type_identifier) @name) @def.enum
(class_declaration declaration_kind: "extension" name: (user_type . (type_identifier) @name)) @region
(class_declaration name: (type_identifier) @name) @def.class
(protocol_declaration name: (type_identifier) @name) @def.interface
(function_declaration name: (simple_identifier) @name) @def.function
(protocol_function_declaration name: (simple_identifier) @name) @def.method
(init_declaration "init" @name) @def.method
(property_declaration name: (pattern bound_identifier: (simple_identifier) @name)) @def.variable
(protocol_property_declaration name: (pattern bound_identifier: (simple_identifier) @name)) @def.field
(enum_entry name: (simple_identifier) @name) @def.constant
(typealias_declaration name: (type_identifier) @name) @def.type
(import_declaration) @tree @import
""",
    uses="""
[(simple_identifier) (type_identifier)] @use
(call_expression . [(simple_identifier) @call (navigation_expression suffix: (navigation_suffix suffix: (_) @call))])
(parameter name: (simple_identifier) @skip)
(value_argument_label (simple_identifier) @skip)
[(comment) (multiline_comment)] @comment
""",
    blocks=("source_file", "statements", "class_body", "protocol_body", "enum_class_body"),
    bodies=("class_body", "enum_class_body", "protocol_body"),
)
