"""SQL, JSON, YAML, TOML, Markdown."""

from __future__ import annotations

from context.queries.language import LanguageQueries

SQL = LanguageQueries(
    definitions="""
(create_table (object_reference name: (identifier) @name) (column_definitions)? @body) @def.class
(create_view (object_reference name: (identifier) @name) (create_query)? @body) @def.class
(create_materialized_view (object_reference name: (identifier) @name)) @def.class
(create_function (object_reference name: (identifier) @name) (function_body)? @body) @def.function
(create_type (object_reference name: (identifier) @name)) @def.type
(column_definition name: (identifier) @name) @def.field
""",
    uses="""
(identifier) @use
(invocation (object_reference name: (identifier) @call))
[(comment) (marginalia)] @comment
""",
    blocks=("program",),
)

JSON = LanguageQueries(
    definitions="(document (object (pair key: (string (string_content) @name)) @def.field))",
    uses="(comment) @comment",
)

YAML = LanguageQueries(
    definitions="""
(document (block_node (block_mapping (block_mapping_pair key: (flow_node) @name value: (block_node)? @body) @def.field)))
(anchor (anchor_name) @name) @def.variable
""",
    uses="""
(alias_name) @use
(comment) @comment
""",
)

TOML = LanguageQueries(
    definitions="""
(table . (_) @name "]" @head) @def.module
(table_array_element . (_) @name "]]" @head) @def.module
(pair . (_) @name) @def.field
""",
    uses="(comment) @comment",
)

MARKDOWN = LanguageQueries(
    definitions="""
(section . (atx_heading heading_content: (inline) @name) @head) @def.module
(setext_heading heading_content: (paragraph) @name) @def.module
""",
    uses="(html_block) @comment",
)
