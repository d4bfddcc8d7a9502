"""Python, Ruby, PHP, Lua, shell."""

from __future__ import annotations

from context.queries.language import LanguageQueries

PYTHON = LanguageQueries(
    definitions="""
(function_definition name: (identifier) @name ":" @head body: (block) @body) @def.function
(class_definition name: (identifier) @name ":" @head body: (block) @body) @def.class
(type_alias_statement left: (type [(identifier) @name (generic_type . (identifier) @name)])) @def.type
(assignment left: (identifier) @name) @def.variable
(assignment left: (pattern_list (identifier) @name)) @def.variable
(assignment left: (attribute object: (identifier) @is.self attribute: (identifier) @name)) @def.member
(import_statement name: (dotted_name) @module) @import
(import_statement name: (aliased_import name: (dotted_name) @module alias: (identifier) @alias)) @import
(import_from_statement module_name: (_) @module name: (dotted_name) @name) @import
(import_from_statement module_name: (_) @module
  name: (aliased_import name: (dotted_name) @name alias: (identifier) @alias)) @import
(import_from_statement module_name: (_) @module (wildcard_import) @star) @import
(future_import_statement) @skip
""",
    uses="""
(identifier) @use
(call function: [(identifier) @call (attribute attribute: (identifier) @call)])
(comment) @comment
(keyword_argument name: (identifier) @skip)
(parameters [(identifier) @skip (typed_parameter . (identifier) @skip) (default_parameter name: (identifier) @skip)
  (typed_default_parameter name: (identifier) @skip) (list_splat_pattern (identifier) @skip)
  (dictionary_splat_pattern (identifier) @skip)])
""",
    blocks=("module", "block"),
    doc_inside=True,
)

RUBY = LanguageQueries(
    definitions="""
(module name: [(constant) @name (scope_resolution scope: (_) @scope name: (constant) @name)]) @def.module
(class name: [(constant) @name (scope_resolution scope: (_) @scope name: (constant) @name)]) @def.class
(method name: (_) @name) @def.method
(singleton_method name: (_) @name) @def.method
(assignment left: (constant) @name) @def.constant
(call method: (identifier) @is.attr arguments: (argument_list (simple_symbol) @name)) @def.field
(call !receiver method: (identifier) @is.ruby arguments: (argument_list . (string (string_content) @module))) @import
""",
    uses="""
[(identifier) (constant)] @use
(call method: (identifier) @call)
(comment) @comment
(method_parameters [(identifier) @skip (optional_parameter name: (identifier) @skip)
  (keyword_parameter name: (identifier) @skip) (splat_parameter name: (identifier) @skip)
  (block_parameter name: (identifier) @skip)])
""",
    blocks=("program", "body_statement", "then", "else", "do", "ensure", "block_body", "begin"),
    bodies=("body_statement",),
)

PHP = LanguageQueries(
    definitions="""
(namespace_definition name: (namespace_name) @name) @def.module
(class_declaration name: (name) @name) @def.class
(trait_declaration name: (name) @name) @def.class
(interface_declaration name: (name) @name) @def.interface
(enum_declaration name: (name) @name) @def.enum
(function_definition name: (name) @name) @def.function
(method_declaration name: (name) @name) @def.method
(property_declaration (property_element name: (variable_name) @name)) @def.field
(const_declaration (const_element . (name) @name)) @def.constant
(enum_case name: (name) @name) @def.constant
(function_call_expression function: (name) @is.define
  arguments: (arguments . (argument (string (string_content) @name)))) @def.constant
(namespace_use_declaration) @tree @import
(include_expression (string (string_content) @module)) @import
(include_once_expression (string (string_content) @module)) @import
(require_expression (string (string_content) @module)) @import
(require_once_expression (string (string_content) @module)) @import
""",
    uses="""
(name) @use
(function_call_expression function: [(name) @call (qualified_name (name) @call .)])
(member_call_expression name: (name) @call)
(scoped_call_expression name: (name) @call)
(object_creation_expression (name) @call)
(variable_name (name) @skip)
(comment) @comment
""",
    blocks=("program", "compound_statement", "declaration_list", "case_statement", "default_statement"),
    separator="\\",
)

LUA = LanguageQueries(
    definitions="""
(function_declaration name: (identifier) @name) @def.function
(function_declaration name: (dot_index_expression table: (_) @scope field: (identifier) @name)) @def.function
(function_declaration name: (method_index_expression table: (_) @scope method: (identifier) @name)) @def.method
(assignment_statement (variable_list . name: (dot_index_expression table: (_) @scope field: (identifier) @name))
  (expression_list . value: (function_definition body: (_)? @body))) @def.function
(assignment_statement (variable_list . name: (identifier) @name)
  (expression_list . value: (function_definition body: (_)? @body))) @def.function
(field name: (identifier) @name value: (function_definition body: (_)? @body)) @def.function
(variable_declaration (assignment_statement (variable_list name: (identifier) @name))) @def.variable
(assignment_statement (variable_list name: (identifier) @name)) @def.variable
(variable_declaration (assignment_statement (variable_list . name: (identifier) @alias)
  (expression_list . value: (function_call name: (identifier) @is.require
    arguments: (arguments (string content: (_) @module)))))) @import
(function_call name: (identifier) @is.require arguments: (arguments (string content: (_) @module))) @import
""",
    uses="""
(identifier) @use
(function_call name: [(identifier) @call (dot_index_expression field: (identifier) @call)
  (method_index_expression method: (identifier) @call)])
(parameters name: (identifier) @skip)
(comment) @comment
""",
    blocks=("chunk", "block"),
)

SHELL = LanguageQueries(
    definitions="""
(function_definition name: (word) @name) @def.function
(variable_assignment name: (variable_name) @name) @def.variable
(command name: (command_name (word) @is.source) argument: [(word) (string) (raw_string)] @module) @import
""",
    uses="""
(variable_name) @use
(command_name (word) @call)
(simple_expansion (special_variable_name) @skip)
(comment) @comment
""",
    blocks=("program", "compound_statement", "do_group", "if_statement", "else_clause", "case_item", "subshell"),
)
