"""Names that JavaScript and TypeScript bring along: keywords, globals, types and members of built-in objects.

Owns the list, of those that a program is likely to use. They are never renamed, and never invented.
"""

from __future__ import annotations

_WORDS = """
abstract any as asserts async await bigint boolean break case catch class const constructor continue debugger declare
default delete do else enum export extends false finally for from function get global if implements import in infer
instanceof interface is keyof let module namespace never new null number object of out override package private protected
public readonly require return satisfies set static string super switch symbol this throw true try type typeof undefined
union unique unknown using var void while with yield

AbortController AbortSignal Array ArrayBuffer ArrayLike AsyncGenerator AsyncIterable AsyncIterableIterator AsyncIterator
Awaited BigInt Blob Boolean Buffer CSSStyleDeclaration ConstructorParameters DataView Date Document Element Error EvalError
Event EventTarget Exclude Extract File FileReader Float32Array Float64Array FormData Function Generator HTMLElement Headers
Infinity InstanceType Int16Array Int32Array Int8Array Intl Iterable IterableIterator Iterator IteratorResult JSON Map Math
NaN Navigator Node NodeJS NonNullable Number Object Omit Parameters Partial Pick Promise PromiseLike PromiseConstructorLike
PropertyDescriptor PropertyKey Proxy RangeError Readonly ReadonlyArray ReadonlyMap ReadonlySet Record ReferenceError Reflect
RegExp RegExpExecArray RegExpMatchArray Request RequestInit Required Response ReturnType Set String Symbol SyntaxError
TemplateStringsArray TextDecoder TextEncoder ThisType TypeError URIError URL URLSearchParams Uint16Array Uint32Array
Uint8Array Uint8ClampedArray WeakMap WeakRef WeakSet WebSocket Window Worker XMLHttpRequest

abs accept aborted abort actual add addEventListener all allSettled apply arguments assign async_iterator asyncIterator at
bind body bubbles buffer byteLength byteOffset call callee caller catch cause ceil charAt charCodeAt clear clearInterval
clearTimeout clone close code codePointAt concat configurable console contains copyWithin create createElement crypto
currentTarget data debug decode defaultView defineProperties defineProperty deleteProperty description detail dir
dispatchEvent document done encode encodeURI encodeURIComponent endsWith entries enumerable env error eval every exec exit
exports fetch fill filter find findIndex findLast flags flat flatMap floor forEach freeze fromCharCode fromEntries
getOwnPropertyDescriptor getOwnPropertyNames getOwnPropertySymbols getPrototypeOf getTime globalThis group has hasOwn
hasOwnProperty hash headers height href host hostname id includes index indexOf info init innerHTML input isArray isFinite
isInteger isNaN isPrototypeOf iterator join json keys lastIndex lastIndexOf length localeCompare location log map match
matchAll max message method min name navigator next now ok on off once onabort onerror onload onmessage open origin padEnd
padStart parse parseFloat parseInt pathname pop port postMessage pow preventDefault prototype process protocol proxy push
race random raw readyState reason reduce reduceRight reject removeEventListener removeListener addListener repeat replace
replaceAll requestAnimationFrame cancelAnimationFrame resolve response responseText responseType result reverse revoke round
search send setInterval setItem getItem setPrototypeOf setRequestHeader setTimeout shift signal size slice some sort source
splice split sqrt stack startsWith status statusText stopPropagation stringify subarray substr substring target test text
then timeStamp timeout toFixed toISOString toJSON toLocaleString toLowerCase toString toUpperCase trim trimEnd trimStart
trunc unshift upload url username value valueOf values warn width window withCredentials write
"""

SCRIPT_NAMES = frozenset(_WORDS.split())
