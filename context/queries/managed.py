"""Java, Kotlin, Scala, C#."""

from __future__ import annotations

from context.queries.language import LanguageQueries

JAVA = LanguageQueries(
    definitions="""
(package_declaration (_) @name) @def.module
(class_declaration name: (identifier) @name) @def.class
(record_declaration name: (identifier) @name) @def.class
(interface_declaration name: (identifier) @name) @def.interface
(annotation_type_declaration name: (identifier) @name) @def.interface
(enum_declaration name: (identifier) @name) @def.enum
(method_declaration name: (identifier) @name) @def.method
(constructor_declaration name: (identifier) @name) @def.method
(annotation_type_element_declaration name: (identifier) @name) @def.method
(field_declaration declarator: (variable_declarator name: (identifier) @name)) @def.field
(constant_declaration declarator: (variable_declarator name: (identifier) @name)) @def.constant
(enum_constant name: (identifier) @name) @def.constant
(import_declaration) @tree @import
""",
    uses="""
[(identifier) (type_identifier)] @use
(method_invocation name: (identifier) @call)
(object_creation_expression type: [(type_identifier) @call (generic_type (type_identifier) @call)])
(formal_parameter name: (identifier) @skip)
[(line_comment) (block_comment)] @comment
""",
    blocks=("program", "block", "class_body", "interface_body", "constructor_body", "switch_block_statement_group"),
)

KOTLIN = LanguageQueries(
    definitions="""
(package_header (_) @name) @def.module
(class_declaration "interface" name: (identifier) @name) @def.interface
(class_declaration name: (identifier) @name (enum_class_body)) @def.enum
(class_declaration name: (identifier) @name) @def.class
(object_declaration name: (identifier) @name) @def.class
(function_declaration name: (identifier) @name) @def.function
(property_declaration (variable_declaration . (identifier) @name)) @def.variable
(primary_constructor (class_parameters (class_parameter ["val" "var"] (identifier) @name) @def.field))
(enum_entry . (identifier) @name) @def.constant
(type_alias type: (identifier) @name) @def.type
(import) @tree @import
""",
    uses="""
(identifier) @use
(call_expression . [(identifier) @call (navigation_expression (identifier) @call .)])
(parameter . (identifier) @skip)
[(line_comment) (block_comment)] @comment
""",
    blocks=("source_file", "block", "class_body"),
    bodies=("class_body", "enum_class_body", "function_body"),
)

SCALA = LanguageQueries(
    definitions="""
(package_clause name: (_) @name) @def.module
(class_definition name: (identifier) @name) @def.class
(object_definition name: (identifier) @name) @def.class
(trait_definition name: (identifier) @name) @def.interface
(enum_definition name: (identifier) @name) @def.enum
(simple_enum_case name: (identifier) @name) @def.constant
(full_enum_case name: (identifier) @name) @def.constant
(function_definition name: (_) @name) @def.function
(function_declaration name: (_) @name) @def.function
(val_definition pattern: (identifier) @name) @def.variable
(var_definition pattern: (identifier) @name) @def.variable
(val_declaration name: (identifier) @name) @def.variable
(given_definition name: (identifier) @name) @def.variable
(type_definition name: (type_identifier) @name) @def.type
(import_declaration) @tree @import
""",
    uses="""
[(identifier) (type_identifier)] @use
(call_expression function: [(identifier) @call (field_expression field: (identifier) @call)
  (generic_function (identifier) @call)])
(instance_expression (type_identifier) @call)
(parameter name: (identifier) @skip)
[(comment) (block_comment)] @comment
""",
    blocks=("compilation_unit", "block", "template_body", "indented_block", "case_block"),
)

CSHARP = LanguageQueries(
    definitions="""
(namespace_declaration name: (_) @name) @def.module
(file_scoped_namespace_declaration name: (_) @name) @def.module
(class_declaration name: (identifier) @name) @def.class
(struct_declaration name: (identifier) @name) @def.class
(record_declaration name: (identifier) @name) @def.class
(interface_declaration name: (identifier) @name) @def.interface
(enum_declaration name: (identifier) @name) @def.enum
(enum_member_declaration name: (identifier) @name) @def.constant
(delegate_declaration name: (identifier) @name) @def.type
(method_declaration name: (identifier) @name) @def.method
(constructor_declaration name: (identifier) @name) @def.method
(local_function_statement name: (identifier) @name) @def.function
(property_declaration name: (identifier) @name accessors: (_)? @body) @def.field
(event_declaration name: (identifier) @name) @def.field
(event_field_declaration (variable_declaration (variable_declarator name: (identifier) @name))) @def.field
(field_declaration (variable_declaration (variable_declarator name: (identifier) @name))) @def.field
(using_directive) @tree @import
""",
    uses="""
(identifier) @use
(invocation_expression function: [(identifier) @call (member_access_expression name: (identifier) @call)
  (generic_name (identifier) @call) (member_access_expression name: (generic_name (identifier) @call))])
(object_creation_expression type: [(identifier) @call (generic_name (identifier) @call)])
(parameter name: (identifier) @skip)
(comment) @comment
""",
    blocks=("compilation_unit", "block", "declaration_list", "switch_section"),
)
