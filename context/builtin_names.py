"""Names that a language has without anybody's definition or import, where a call can be told by its name alone.

Languages are missing where a call may mean an inherited member, a macro or an extension: nothing can be said there.
"""

from __future__ import annotations

import builtins

_SCRIPT = frozenset({
    "Array", "ArrayBuffer", "BigInt", "Boolean", "DataView", "Date", "Error", "EvalError", "Float32Array", "Float64Array",
    "Function", "Int16Array", "Int32Array", "Int8Array", "Map", "Number", "Object", "Promise", "Proxy", "RangeError",
    "ReferenceError", "RegExp", "Set", "String", "Symbol", "SyntaxError", "TypeError", "URIError", "Uint16Array", "Uint32Array",
    "Uint8Array", "Uint8ClampedArray", "WeakMap", "WeakRef", "WeakSet", "AggregateError", "SharedArrayBuffer",
    "BigInt64Array", "BigUint64Array", "FinalizationRegistry",
    "parseInt", "parseFloat", "isNaN", "isFinite", "encodeURI", "encodeURIComponent", "decodeURI", "decodeURIComponent",
    "escape", "unescape", "eval", "require", "import", "super",
    "setTimeout", "setInterval", "setImmediate", "clearTimeout", "clearInterval", "clearImmediate", "queueMicrotask",
    "structuredClone", "fetch", "alert", "confirm", "prompt", "atob", "btoa", "requestAnimationFrame", "cancelAnimationFrame",
    "requestIdleCallback", "addEventListener", "removeEventListener", "getComputedStyle", "matchMedia", "postMessage",
    "AbortController", "AbortSignal", "Blob", "BroadcastChannel", "Buffer", "CustomEvent", "DOMParser", "Event", "EventSource",
    "EventTarget", "File", "FileReader", "FormData", "Headers", "Image", "IntersectionObserver", "MessageChannel",
    "MutationObserver", "Notification", "Option", "PerformanceObserver", "Request", "ResizeObserver", "Response", "TextDecoder",
    "TextEncoder", "URL", "URLSearchParams", "WebSocket", "Worker", "XMLHttpRequest", "ReadableStream", "WritableStream",
    "TransformStream", "MediaRecorder", "Audio", "KeyboardEvent", "MouseEvent",
    "describe", "it", "test", "expect", "beforeEach", "afterEach", "beforeAll", "afterAll",
})  # fmt: skip

BUILTIN: dict[str, frozenset[str]] = {
    "python": frozenset(dir(builtins)) | {"reveal_type", "super", "unicode", "xrange", "basestring", "raw_input", "long"},
    "javascript": _SCRIPT,
    "javascriptreact": _SCRIPT,
    "typescript": _SCRIPT,
    "typescriptreact": _SCRIPT,
    "go": frozenset({
        "append", "cap", "clear", "close", "complex", "copy", "delete", "imag", "len", "make", "max", "min", "new", "panic",
        "print", "println", "real", "recover", "bool", "byte", "complex64", "complex128", "error", "float32", "float64", "int",
        "int8", "int16", "int32", "int64", "rune", "string", "uint", "uint8", "uint16", "uint32", "uint64", "uintptr", "any",
        "func",
    }),
    "rust": frozenset({"Some", "Ok", "Err", "Box", "String", "Vec", "drop", "Self", "Default", "size_of", "size_of_val"}),
}  # fmt: skip
