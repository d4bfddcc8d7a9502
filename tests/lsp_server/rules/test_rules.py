"""Every rule, one line each: a document, what the model says, what the document is with the offer accepted."""

from __future__ import annotations

import pytest

from tests.lsp_server.rules.check import judged

PI = "[3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4, 6]"

# language, document, what the model says, what comes of it, the rule that ends the stream ("" = none does)
STREAMS = [
    # one line
    ("python", "x = $0\n", "a + b\n    c\n", "x = a + b\n", "line"),
    ("python", "x = 1$0\n", "\n    next", "x = 1\n", "line"),
    (
        "python",
        "def f():\n    a = 1\n    $0\n    c = 3\n",
        "b = 2\n    return",
        "def f():\n    a = 1\n    b = 2\n    c = 3\n",
        "line",
    ),
    # a block ends with its indentation, bracket, word or string
    ("python", "def f():\n    $0\n\nx", "a = 1\n    return a\n\n\ndef g", "def f():\n    a = 1\n    return a\n\nx", "scope"),
    ("python", "def f():$0\n", "\n    return 1\n\nprint", "def f():\n    return 1\n", "scope"),
    ("python", "if x:$0\n", " return\n    y = 1", "if x: return\n", "line"),
    ("python", "if x:\n    $0\n", "a()\nelse:\n    b()", "if x:\n    a()\n", "scope"),
    (
        "python",
        "def f():\n    $0\n",
        's = """\nat the margin\n"""\n    return s',
        'def f():\n    s = """\nat the margin\n"""\n    return s\n',
        "",
    ),
    ("python", "def f():\n    $0\n", "x = [\n  1,\n]\n    y", "def f():\n    x = [\n  1,\n]\n    y\n", ""),
    ("python", 'def f():\n    """$0"""\n    x', 'Say it."""\n    x', 'def f():\n    """Say it."""\n    x', "closers"),
    ("python", 'def f():\n    """$0\n    x', 'Say it.\n\n    Now."""\n    y', 'def f():\n    """Say it.\n    x', "line"),
    ("python", 'def f():\n    """\n    $0\n', 'Say it.\n    """\n    y', 'def f():\n    """\n    Say it.\n    """\n', "scope"),
    ("javascript", "function f() {\n  $0\n", "return 1;\n}\n\nfunction g", "function f() {\n  return 1;\n}\n", "scope"),
    ("javascript", "function f() {\n  $0\n}\n", "return 1;\n}\n\nfunction g", "function f() {\n  return 1;\n}\n", "closers"),
    ("javascript", "function f() {\n  $0\n\n  a();\n}\n", "b();\n}\nc", "function f() {\n  b();\n\n  a();\n}\n", "closers"),
    ("javascript", "run({$0\n", "\n  a: 1,\n});\nmore", "run({\n  a: 1,\n});\n", "scope"),
    ("javascript", "run({$0});\n", "\n  a: 1,\n});\nmore", "run({\n  a: 1,\n});\n", "scope"),
    ("javascript", "run(\n  $0\n)\n", "a, b)\nmore", "run(\n  a, b\n)\n", "closers"),
    ("javascript", "const s = '}';\nif (a) {\n  $0\n}", "b('}');\n}", "const s = '}';\nif (a) {\n  b('}');\n}", "closers"),
    ("ruby", "def f\n  $0\nend\n", "x\nend\n\ndef g", "def f\n  x\nend\n", "closers"),
    ("ruby", "def f\n  $0\n", "x\nend\n\ndef g", "def f\n  x\nend\n", "scope"),
    ("lua", "if x then\n  $0\n", "y()\nend\nz", "if x then\n  y()\nend\n", "scope"),
    ("shellscript", "for x in *; do\n  $0\ndone\n", "cat $x\ndone\nls", "for x in *; do\n  cat $x\ndone\n", "closers"),
    # a unit
    ("python", "import os\n\n\n$0", "def f():\n    pass\n\n\ndef g():", "import os\n\n\ndef f():\n    pass", "unit"),
    (
        "python",
        "class A:\n    $0\n",
        "def f(self):\n        pass\n\n    def g(self):",
        "class A:\n    def f(self):\n        pass\n",
        "unit",
    ),
    (
        "python",
        "class A:\n    $0\n",
        "x = 1\n\n    def g(self):\n        p",
        "class A:\n    x = 1\n\n    def g(self):\n        p\n",
        "",
    ),
    (
        "python",
        "def f():\n    $0\n",
        "for x in y:\n        z\n\n    return x",
        "def f():\n    for x in y:\n        z\n\n    return x\n",
        "",
    ),
    ("go", "package a\n\n$0", "func f() {\n\tx()\n}\n\nfunc g() {", "package a\n\nfunc f() {\n\tx()\n}", "unit"),
    # what stands behind and below
    ("python", "foo($0bar, baz)\n", "x, bar, baz)\nmore", "foo(x, bar, baz)\n", "behind"),
    ("python", "foo($0, default)\n", "bar(x, default), default)\n", "foo(bar(x, default), default)\n", "behind"),
    ("python", "a = 1\n$0\nb = func(2)\nc = 3\n", "x = 0\nb = func(2)\nc = 3\n", "a = 1\nx = 0\nb = func(2)\nc = 3\n", "below"),
    (
        "python",
        "def f():\n    $0\n    data = read(p)\n",
        "data = read(p)\n    more",
        "def f():\n    \n    data = read(p)\n",
        "below",
    ),
    (
        "python",
        "def f():\n    $0\n    data = read(p)\n",
        "data = read(q)\n    more",
        "def f():\n    data = read(q)\n    more\n    data = read(p)\n",
        "",
    ),
    (
        "python",
        "def f():\n    $0\n    data = read_file(path)\n    return parse(data)\n",
        "data = read_file(path )\n    return parse(data)\n    x",
        "def f():\n    \n    data = read_file(path)\n    return parse(data)\n",
        "below",
    ),
    # a short line, or one that only begins something, is the same by chance until the next one is, too
    (
        "python",
        "class A:\n    $0\n\n    @property\n    def b(self):\n        pass\n",
        "@property\n    def a(self):\n        return 1\n\n    @property\n    def b(self):\n",
        "class A:\n    @property\n    def a(self):\n        return 1\n\n    @property\n    def b(self):\n        pass\n",
        "unit",
    ),
    (
        "javascript",
        "function f(a) {\n  $0\n  if (a.isReady()) {\n    b();\n  }\n}\n",
        "if (a.isReady()) {\n    c();\n  }\n  d();\n",
        "function f(a) {\n  if (a.isReady()) {\n    c();\n  }\n  d();\n  if (a.isReady()) {\n    b();\n  }\n}\n",
        "",
    ),
    (
        "python",
        "def f():\n    $0\n    n += 1\n    return n\n",
        "n += 1\n    g(n)\n    n += 1\n    return n\n",
        "def f():\n    n += 1\n    g(n)\n    n += 1\n    return n\n",
        "below",
    ),
    (
        "python",
        "def f():\n    $0\n    item_a = read(item_a)\n    return item_a\n",
        "item_b = read(item_b)\n    return item_b\n    x",
        "def f():\n    item_b = read(item_b)\n    return item_b\n    x\n    item_a = read(item_a)\n    return item_a\n",
        "",
    ),
    # what closes nothing, and lines below that are said behind something
    ("python", "x = $0\n", "f(1))\n", "x = f(1)\n", "closers"),
    ("javascript", "function f() {\n  return $0\n}\n", "g(1));\n", "function f() {\n  return g(1)\n}\n", "closers"),
    ("javascript", "/* {( */\nfunction f() {\n  $0\n", "a();\n}\n", "/* {( */\nfunction f() {\n  a();\n}\n", "scope"),
    ("shellscript", "case x in\n  $0\n", "a) b ;;\nesac\n", "case x in\n  a) b ;;\nesac\n", "scope"),
    (
        "python",
        "def f():\n    return $0\n    data = read(p)\n",
        "data = read(p)\n",
        "def f():\n    return \n    data = read(p)\n",
        "below",
    ),
    (
        "python",
        "def f():\n    data = $0\n    data = read(p)\n",
        "read(p)\n",
        "def f():\n    data = \n    data = read(p)\n",
        "below",
    ),
    (
        "go",
        "func f() {\n\t$0\n\t// bounds are checked\n",
        "\t// bounds are checked\n\tx",
        "func f() {\n\t\n\t// bounds are checked\n",
        "below",
    ),
    # loops
    ("python", "x = $0\n", " " * 99, "x = \n", "blank-run"),
    (
        "javascript",
        "var a;\n$0",
        "function a(x) {\n}\n" + "function typeAfter(stream) {\n}\nfunction typeBefore(stream) {\n}\n" * 5,
        "var a;\nfunction a(x) {\n}\nfunction typeAfter(stream) {\n}\nfunction typeBefore(stream) {\n}",
        "period",
    ),
    ("python", "def f():\n    $0\n", "go()\n" + "    step()\n" * 9, "def f():\n    go()\n    step()\n", "equal-lines"),
    ("python", "x = $0\n", "[" + "None, " * 40, "x = [None\n", "period"),
    ("python", "x = $0\n", "[0, 0, 0, 0]\n", "x = [0, 0, 0, 0]\n", "line"),
    ("python", "# $0\n", "-" * 70 + "\n", "# " + "-" * 70 + "\n", "line"),
    ("python", "# $0\n", "-" * 400, "# -\n", "period"),
    ("python", "a = 1\n$0", "".join(f"x{i} = f({i})\n" for i in range(50)), "a = 1\nx0 = f(0)", "counter"),
    ("python", "x = [$0]\n", "".join(f"{i}, " for i in range(1, 90)), "x = [1]\n", "counter"),
    # a block that the first copy does not close ends before it, or with its own closer
    (
        "javascript",
        "function f(a) {\n  $0\n}\n",
        "a = g(a);\n  switch (a) {\n" + "".join(f"    case {i}:\n      return {i};\n" for i in range(9)),
        "function f(a) {\n  a = g(a);\n}\n",
        "counter",
    ),
    (
        "javascript",
        "function f(a) {\n  $0\n}\n",
        "".join(f"if (a == {i}) {{\n    return {i};\n  }} else " for i in range(9)),
        "function f(a) {\n  if (a == 0) {\n    return 0;\n  }\n}\n",
        "counter",
    ),
    ("python", "x = $0\n", "{" + "".join(f"'a{i}': {i}, " for i in range(30)), "x = \n", "counter"),
    # the backslashes of a macro stand in a column
    (
        "c",
        "#define F(a)$0\n",
        " " * 60 + "\\\n    do {" + " " * 90 + "\\\n    } while (0)\n",
        "#define F(a)" + " " * 60 + "\\\n",
        "line",
    ),
    (
        "c",
        "#define F(a) \\\n    $0\n",
        "do {" + " " * 90 + "\\\n        g(a);" + " " * 90 + "\\\n    } while (0)\n\nint x;\n",
        "#define F(a) \\\n    do {" + " " * 90 + "\\\n        g(a);" + " " * 90 + "\\\n    } while (0)\n",
        "scope",
    ),
    ("c", "int x = $0\n", "1;" + " " * 99 + "\n", "int x = 1;\n", "blank-run"),
    ("python", "x = $0\n", f"{PI}\n", f"x = {PI}\n", "line"),
    ("python", "def f():\n    $0\n", "a()\n\n\n\n\n\n\n\n    b()", "def f():\n    a()\n", "blank-run"),
    (
        "python",
        "def f():\n    $0\n",
        "a()\n" + "".join(f"    # so {c}\n" for c in "abcdefghijk"),
        "def f():\n    a()\n",
        "comment-run",
    ),
    (
        "python",
        "def f():\n    $0\n",
        "".join(f"    # so {c}\n" for c in "abcdefghijk").lstrip(),
        "def f():\n    # so a\n    # so b\n    # so c\n",
        "comment-run",
    ),
    # leaks
    ("python", "x = $0\n", "1<|fim_middle|>2", "x = 1\n", "marker"),
    ("python", "x = $0\n", "1 <EOT>", "x = 1\n", "marker"),
    ("python", "x = $0\n", "'ok<|fim_middle|>", "x = \n", "marker"),
    ("python", "x = '$0'\n", "ok<|fim_middle|>", "x = 'ok'\n", "marker"),
    ("python", "if x:\n    $0\n", "y = 1\n    s = f(\"ok<|fim_middle|>", "if x:\n    y = 1\n", "marker"),
    ("python", "x = $0\n", "1<file_sep>other.py\nz = 3", "x = 1\n", "marker"),
    ("python", "x = $0\n", "1<｜fim▁end｜>", "x = 1\n", "marker"),
    ("python", "END = '<|endoftext|>'\nx = $0\n", "'<|endoftext|>'\n", "END = '<|endoftext|>'\nx = '<|endoftext|>'\n", "line"),
    ("html", "<p>$0</p>\n", "<s>no</s>\n", "<p><s>no</s></p>\n", "line"),
    ("python", "x = $0\n", "'ok\ufffd", "x = 'ok\n", "half-character"),
    ("python", "x = 1\n$0", "y = 2\n```\nThis is how", "x = 1\ny = 2", "fence"),
    ("python", "def f():\n    $0\n", "return 1\n    ```\n", "def f():\n    return 1\n", "fence"),
    ("markdown", "Text.\n\n$0", "```\ncode\n```\n", "Text.\n\n```\ncode\n```\n", ""),
    ("python", 'def f():\n    """\n    $0\n', "```\n    f()\n    ```\n", 'def f():\n    """\n    ```\n    f()\n    ```\n', ""),
    ("python", "x = 1\n$0", "y = 2\n# src/other.py\nimport os", "x = 1\ny = 2", "other-file"),
    ("go", "package a\n\n$0", "var x = 1\npackage b\n", "package a\n\nvar x = 1", "other-file"),
]


@pytest.mark.parametrize(("language", "document", "says", "want", "rule"), STREAMS)
def test_streams(language: str, document: str, says: str, want: str, rule: str) -> None:
    got = judged(document, says, language)
    assert (got.document, got.rule) == (want, rule)
    if rule:
        assert judged(document, says, language, off=frozenset({rule})).rule != rule


# language, document, what the model says, is it whole, what comes of it, the rules that took part
SHAPES = [
    ("python", "x = $0\n", "a + b  ", False, "x = a + b\n", ""),
    ("python", "if x:\n    $0\n", "a\n    b\n    half a li", False, "if x:\n    a\n    b\n", "partial-line"),
    ("python", "if x:\n    $0\n", "half a li", False, "if x:\n    half a li\n", ""),
    ("python", "$0", "print('hi')\n", True, "print('hi')\n", ""),
    ("python", "if x:\n    $0\nmore\n", "a\n    b\n", True, "if x:\n    a\n    b\nmore\n", ""),
    ("python", "x = $0\n", "b<|fim_mi", False, "x = b\n", "marker"),
    # a string that the text opens goes with a marker in it; one that was open before, or closes behind, stays
    ("python", "x = $0\n", "'b<|fim_mi", False, "x = \n", "marker"),
    ("python", "x = '$0'\n", "b<|fim_mi", False, "x = 'b'\n", "marker"),
    ("python", "x = $0\n", "'b', 'b', 'b', 'b', 'b', ", False, "x = 'b'\n", "period"),
    ("python", "x = $0\n", "['b', 'b', 'b']", True, "x = ['b', 'b', 'b']\n", ""),
    ("python", "a = 1\n$0\nb = 2\n", "x = 0\nb = 2", True, "a = 1\nx = 0\nb = 2\n", "below"),
    # at the end of a block that was said: what stands behind the block, and what only begins that block
    (
        "python",
        "def f():\n    for x in y:\n        $0\n    return p\n",
        "p = g(x)\n        if p:\n            return p\n",
        True,
        "def f():\n    for x in y:\n        p = g(x)\n    return p\n",
        "below",
    ),
    ("python", "if x:\n    y = $0\nlast\n", "last", True, "if x:\n    y = last\nlast\n", ""),
    ("ruby", "def f\n  $0\nend\n", "if x\n    y\n  end", True, "def f\n  if x\n    y\n  end\nend\n", ""),
    ("javascript", "x = (c$0)\n", "h == \"\\\"\") || (ch == 'y');", True, "x = (ch == \"\\\"\") || (ch == 'y');\n", "closers"),
    ("javascript", "f(() => {\n  $0\n});\n", "a();\n}", True, "f(() => {\n  a();\n});\n", "closers"),
    ("python", "x = $0\n", "'ok\u200d", False, "x = 'ok\n", "half-character"),
    # closers and other tails
    ("python", "total = sum($0)\n", "[4, 5])", True, "total = sum([4, 5])\n", "closers"),
    ("python", "f($0)\n", "x", True, "f(x)\n", ""),
    ("python", "foo($0bar, baz)\n", "x, bar", True, "foo(x, bar, baz)\n", "behind"),
    ("python", "y = $0x\n", "2 * x", True, "y = 2 * x\n", "behind"),
    # in front of a line
    ("python", "def f():\n$0    y = 1\n", "    x = 2\n    y = 1\n", True, "def f():\n    x = 2\n    y = 1\n", "behind"),
    ("python", "def f():\n    $0y = 1\n", "x = 2\n", True, "def f():\n    x = 2\n    y = 1\n", ""),
    ("python", "def f():\n    $0y = 1\n", "x = ", True, "def f():\n    x = y = 1\n", ""),
    # an echo
    ("python", "print($0\n", "print('ready')", True, "print('ready')\n", "echo"),
    ("python", "return $0\n", "return x", True, "return x\n", "echo"),
    ("python", "y = max($0\n", "max(a, b), c)", True, "y = max(max(a, b), c)\n", ""),
    ("python", "x = load(path)\n$0\n", "x = load(path)\ny = x", True, "x = load(path)\ny = x\n", "echo"),
    (
        "python",
        "def f():\n    x = load(path)\n    $0\n",
        "x = load(path)\n    y = x",
        True,
        "def f():\n    x = load(path)\n    y = x\n",
        "echo",
    ),
    # indentation
    (
        "python",
        "def f():\n    a = 1\n    $0\n",
        " b = 2\n    return a",
        True,
        "def f():\n    a = 1\n    b = 2\n    return a\n",
        "indentation",
    ),
    ("python", "def f():\n    a = 1\n$0\n", "    return a", True, "def f():\n    a = 1\n    return a\n", ""),
    (
        "go",
        "func f() {\n\tif ok {\n\t\t$0\n\t}\n}\n",
        "a()\n        b()",
        True,
        "func f() {\n\tif ok {\n\t\ta()\n\t\tb()\n\t}\n}\n",
        "indentation",
    ),
    (
        "go",
        "func f() {\n\t$0\n}\n",
        "if a {\n        b()\n    }",
        True,
        "func f() {\n\tif a {\n\t\tb()\n\t}\n}\n",
        "indentation",
    ),
    ("javascript", "if (a) {\n  $0\n}\n", "x(\n\t\ty)", True, "if (a) {\n  x(\n    y)\n}\n", "indentation"),
    # stumps
    ("python", "def f(self):\n    $0\n", "self.", True, "def f(self):\n    \n", "stump"),
    ("python", "def f(self):\n    $0\n", "x = 1\n    return self.", True, "def f(self):\n    x = 1\n", "stump"),
    ("python", "x = $0\n", "foo(a) + self.b.", True, "x = \n", "stump"),
    ("python", "f($0\n", "a, b)  # that's it.", True, "f(a, b)  # that's it.\n", ""),
    ("python", "x = $0\n", "...", True, "x = ...\n", ""),
    ("cpp", "x $0\n", "= this->", True, "x \n", "stump"),
    ("cpp", "int x;\n$0\n", "* @", True, "int x;\n\n", "stump"),
    ("markdown", "Now $0\n", "it is done.", True, "Now it is done.\n", ""),
    ("python", "$0name\n", "self.", True, "self.name\n", ""),
]


@pytest.mark.parametrize(("language", "document", "says", "whole", "want", "rules"), SHAPES)
def test_shapes(language: str, document: str, says: str, whole: bool, want: str, rules: str) -> None:
    got = judged(document, says, language, whole=whole)
    assert (got.document, " ".join(got.settled.rules)) == (want, rules)
    if rules:
        assert not set(judged(document, says, language, whole=whole, off=frozenset({rules})).settled.rules) & {rules}


SYNTAX = [
    (
        "python",
        "def f(a):\n    $0\n\ndef g():\n    pass\n",
        "x = 1\n    y = = 2\n    z = 3",
        "def f(a):\n    x = 1\n\ndef g():\n    pass\n",
    ),
    ("python", "def f(a):\n    x = $0\n", "foo(a) b", "def f(a):\n    x = foo(a)\n"),
    ("python", "def f(a):\n    x = $0\n", "foo(a) b c(d)", "def f(a):\n    x = foo(a)\n"),
    ("python", "def f(a):\n    x = $0\n", "foo(a,", "def f(a):\n    x = foo(a,\n"),
    (
        "python",
        "def f(a:\n    b = (\n  class C\n    $0\n",
        "x = = 1\n    y",
        "def f(a:\n    b = (\n  class C\n    x = = 1\n    y\n",
    ),
    ("typescript", "function f(a) {\n  $0\n}\n", "const x = 1;\n  const = 2;\n  g();", "function f(a) {\n  const x = 1;\n}\n"),
    ("go", "func f() {\n\t$0\n}\n", "x := g()\n\tif x { y() } else else z\n\tw()", "func f() {\n\tx := g()\n}\n"),
]


@pytest.mark.parametrize(("language", "document", "says", "want"), SYNTAX)
def test_what_the_parser_refuses_is_cut_off(language: str, document: str, says: str, want: str) -> None:
    got = judged(document, says, language, parsed=True)
    assert got.document == want
    assert ("syntax" in got.settled.rules) is (want != document.replace("$0", says))
    assert "syntax" not in judged(document, says, language, parsed=True, off=frozenset({"syntax"})).settled.rules


def test_code_that_was_broken_before_is_not_judged() -> None:
    got = judged("def f(a:\n    b = (\n  class C\n    $0\n", "x = = 1\n    y", parsed=True)
    assert got.settled.text and any("broken" in note for note in got.settled.notes)


def test_a_name_that_nobody_knows() -> None:
    document = "import os\n\ndef known(a):\n    $0\n"
    got = judged(document, "x = len(known(a)) + mystery(a) + os.getcwd() + Foo()", parsed=True)
    assert got.settled.unknown_names == ("mystery", "Foo")
    assert judged(document, "mystery(a)", parsed=True, off=frozenset({"names"})).settled.unknown_names == ()
    assert judged("from x import *\n\n$0", "mystery(a)", parsed=True).settled.unknown_names == ()
    assert judged("class A {\n  void f() {\n    $0\n  }\n}", "inherited(a);", "java", parsed=True).settled.unknown_names == ()


def test_what_the_model_is_not_sure_of_is_not_shown_by_itself() -> None:
    sure = judged("x = $0\n", ["foo", "(1)", "\n"], logprobs=[-0.1, -0.3, -9.0], least=-1.0)
    assert sure.document == "x = foo(1)\n" and sure.settled.confidence == pytest.approx(-0.2)
    unsure = judged("x = $0\n", ["foo", "(1)", "\n"], logprobs=[-1.0, -3.0, 0.0], least=-1.0)
    assert unsure.settled.rules[-1] == "confidence" and "not sure enough" in unsure.settled.reason
    off = judged("x = $0\n", ["foo", "(1)"], logprobs=[-1.0, -3.0], least=-1.0, off=frozenset({"confidence"}))
    assert off.document == "x = foo(1)\n"
    assert judged("x = $0\n", "foo", least=-1.0).settled.confidence is None, "nobody told"
    guess = judged("$0", ["mystery", "(1)"], logprobs=[-0.2, -0.2], parsed=True, least=-0.5)
    assert not guess.settled.text and guess.settled.unknown_names == ("mystery",)


PLACES = [
    ("python", "x = $0\n", True),
    ("python", "def f():\n    $0\n", False),
    ("python", "def f():$0\n", False),
    ("python", "x = a[1:$0]\n", True),
    ("python", "def f():\n    a = 1\n    $0\n    b = 2\n", True),
    ("python", "def f():\n    a = 1\n    $0\n\nx\n", False),
    ("python", "if x:\n    $0\n    b = 2\n", False),
    ("javascript", "run({$0});\n", False),
    ("javascript", "run(a, $0);\n", True),
    ("javascript", "items.map((x) => $0)\n", False),
    ("ruby", "items.each do |x|$0\n", False),
    ("ruby", "x = $0\n", True),
    ("python", "# if this:$0\n", True),
    ("python", "print('if this: {'$0\n", True),
]


@pytest.mark.parametrize(("language", "document", "single"), PLACES)
def test_one_line_or_a_block(language: str, document: str, single: bool) -> None:
    assert judged(document, "", language).place.single_line is single
    if "a = 1\n    $0\n    b" in document:
        assert not judged(document, "", language, accepted=True).place.single_line


@pytest.mark.parametrize(
    ("document", "says", "whole", "reason"),
    [
        ("x = 1$0\n", "\nfoo", False, "the line is complete"),
        ("x = $0\n", "", True, "the model ends here"),
        ("x = $0\n", "", False, "nothing was generated in time"),
        ("x = $0\n", "   ", True, "only blanks, or what stands there already"),
        ("x = $0\n", "<|endoftext|>", False, "the model has left the text"),
        ("foo($0bar, baz)\n", "bar, baz)", True, "what was generated stands behind the cursor already"),
        ("def f():\n    $0\nx", "\n\ny", True, "the block is complete"),
    ],
)
def test_nothing_has_a_reason(document: str, says: str, whole: bool, reason: str) -> None:
    got = judged(document, says, whole=whole)
    assert (got.settled.text, got.settled.reason) == ("", reason)
