"""What keys and tokens look like: one row per format, with where that is written down.

Owns the formats that can be told by themselves, wherever they stand. Refuses to look at names and assignments
(`context.secret_values`) or at anything of more than one piece (`context.secrets`).

A row is tried only where its cue stands, so a text costs one search per cue. Every pattern takes at least so many characters of
a class and then, possessively, all that follow: what fails is short, what matches is passed over, so the whole is linear.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# Where a row's facts are from: the vendor's own documentation of the format, or the rule of that name in the lists that the two
# well-kept scanners publish (gitleaks, MIT; detect-secrets, Apache-2.0). Facts only: lengths, alphabets, prefixes.
VENDOR = "vendor's documentation"
GITLEAKS = "gitleaks"
DETECT = "detect-secrets"


@dataclass(frozen=True, slots=True)
class Format:
    """kind: a name for reports. cue: stands in every such secret, `lead` characters behind its beginning.

    pattern: matched at the beginning; its group 1, if it has one, is the secret, else all of it. bits: entropy per character
    below which it is taken for an example. is_bounded: the character in front may be no letter, digit or underscore.
    """

    kind: str
    cue: str
    pattern: re.Pattern[str]
    source: str
    lead: int = 0
    bits: float = 2.8
    is_bounded: bool = True


def _row(
    kind: str, cue: str, rest: str, source: str, *, lead: str = "", n_lead: int = 0, bits: float = 2.8, is_bounded: bool = True
) -> Format:
    """rest: the pattern behind the cue; lead: the one of the n_lead characters before it."""
    return Format(kind, cue, re.compile(lead + re.escape(cue) + rest, re.ASCII), source, n_lead, bits, is_bounded)


_W = r"[A-Za-z0-9_-]"  # the alphabet of base64 for URLs
_A = r"[A-Za-z0-9]"
_B = r"[A-Za-z0-9+/=]"
_H = r"[A-Fa-f0-9]"
_Q = r"[A-Za-z0-9_~.-]"
_HASH = r"[./A-Za-z0-9]"
_UUID = r"[A-Fa-f0-9]{8}(?:-[A-Fa-f0-9]{4}){3}-[A-Fa-f0-9]{12}"

FORMATS: tuple[Format, ...] = (
    # clouds
    *(_row("aws-key-id", cue, r"[A-Z0-9]{16}(?![A-Za-z0-9])", VENDOR) for cue in ("AKIA", "ASIA", "ABIA", "ACCA")),
    _row("aws-bedrock-key", "ABSK", _B + "{109,}+", GITLEAKS),
    _row("aws-mws-key", "amzn.mws.", _UUID, VENDOR),
    _row("aws-signature", "X-Amz-Signature=", "(" + _H + "{64})", VENDOR),
    _row("aws-session-token", "X-Amz-Security-Token=", "([A-Za-z0-9%+/=._-]{64,}+)", VENDOR),
    _row("google-key", "AIza", _W + "{35}(?!" + _W + ")", VENDOR),
    _row("google-client-secret", "GOCSPX-", _W + "{28,}+", VENDOR),
    _row("google-access-token", "ya29.", _W + "{30,}+", VENDOR),
    _row("google-refresh-token", "1//0", _W + "{36,}+", VENDOR),
    _row("azure-storage-key", "AccountKey=", "([A-Za-z0-9+/]{40,}+={0,2})", VENDOR),
    _row("azure-bus-key", "SharedAccessKey=", "([A-Za-z0-9+/]{40,}+={0,2})", VENDOR),
    _row("azure-signature", "sig=", r"([A-Za-z0-9+/]{0,60}%[A-Za-z0-9%+/]{20,}+)", VENDOR),
    _row("azure-signature", "sig=", r"([A-Za-z0-9+/]{40,}+={1,2})", VENDOR),
    _row("azure-client-secret", "Q~", _Q + "{31,34}(?!" + _Q + ")", GITLEAKS, lead=r"[A-Za-z0-9_~.]{3}[0-9]", n_lead=4),
    _row("azure-devops-token", "AZDO", _A + "{4}(?!" + _A + ")", VENDOR, lead=_A + "{76}", n_lead=76),
    _row("alibaba-key-id", "LTAI", _A + "{17,}+", GITLEAKS),
    _row("tencent-key-id", "AKID", _A + "{32,}+", VENDOR),
    _row("digitalocean-token", "dop_v1_", _H + "{64}", VENDOR),
    _row("digitalocean-token", "doo_v1_", _H + "{64}", VENDOR),
    _row("digitalocean-token", "dor_v1_", _H + "{64}", VENDOR),
    _row("cloudflare-key", "v1.0-", _H + "{24}-" + _H + "{146}", GITLEAKS),
    _row("heroku-key", "HRKU-", _W + "{36,}+", VENDOR),
    _row("fly-token", "fo1_", _W + "{43,}+", GITLEAKS),
    _row("fly-token", "fm2_", _B + "{100,}+", GITLEAKS),
    _row("databricks-token", "dapi", "[a-f0-9]{32}(?:-[0-9])?", VENDOR),
    _row("vault-token", "hvs.", _W + "{24,}+", VENDOR),
    _row("vault-token", "hvb.", _W + "{24,}+", VENDOR),
    _row("terraform-token", ".atlasv1.", r"[A-Za-z0-9=_-]{60,}+", VENDOR, lead=_A + "{14}", n_lead=14),
    _row("pulumi-token", "pul-", "[a-f0-9]{40}", VENDOR),
    _row("doppler-token", "dp.", r"(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{1,35}\.)?" + _A + "{40,}+", VENDOR),
    _row("openshift-token", "sha256~", _W + "{43}", VENDOR),
    # where code lives
    *(_row("github-token", f"gh{letter}_", _A + "{36,}+", VENDOR) for letter in "pousr"),
    _row("github-token", "github_pat_", r"[A-Za-z0-9_]{60,}+", VENDOR),
    *(
        _row("gitlab-token", cue, r"[A-Za-z0-9_.-]{20,}+", VENDOR)
        for cue in ("glpat-", "gldt-", "glrt-", "glft-", "glsoat-", "glcbt-", "glptt-", "gloas-", "glimt-", "glagent-")
    ),
    _row("gitlab-token", "GR1348941", _W + "{20,}+", VENDOR),
    _row("gitlab-token", "_gitlab_session=", "(" + _H + "{32})", GITLEAKS, is_bounded=False),
    _row("bitbucket-token", "ATBB", _A + "{28,}+", VENDOR),
    _row("atlassian-token", "ATATT3", r"[A-Za-z0-9_=-]{60,}+", VENDOR),
    _row("docker-token", "dckr_pat_", _W + "{27,}+", VENDOR),
    _row("docker-token", "dckr_oat_", _W + "{32,}+", VENDOR),
    _row("circleci-token", "CCIPAT_", _A + "{20,}+_" + _H + "{40}", VENDOR),
    _row("sourcegraph-token", "sgp_", r"(?:[A-Fa-f0-9]{16}_|local_)?" + _H + "{40}", VENDOR),
    _row("sentry-token", "sntrys_", r"[A-Za-z0-9+/=_]{60,}+", VENDOR),
    _row("sentry-token", "sntryu_", _H + "{64}", VENDOR),
    # package registries
    _row("npm-token", "npm_", _A + "{36,}+", VENDOR),
    _row("npm-token", "_authToken=", r"([A-Za-z0-9_./+=-]{16,}+)", DETECT, is_bounded=False),
    _row("npm-token", "_auth=", r"([A-Za-z0-9+/=]{12,}+)", VENDOR, is_bounded=False),
    _row("pypi-token", "pypi-AgE", _W + "{60,}+", VENDOR),
    _row("rubygems-token", "rubygems_", _H + "{48}", VENDOR),
    _row("crates-token", "cio", _A + "{32}(?!" + _A + ")", VENDOR, bits=3.5),
    _row("nuget-token", "oy2", r"[a-z0-9]{43}(?![A-Za-z0-9])", VENDOR, bits=3.5),
    _row("artifactory-key", "AKCp", _A + "{60,}+", GITLEAKS),
    _row("clojars-token", "CLOJARS_", _A + "{60}", GITLEAKS),
    # models
    _row("openai-key", "T3BlbkFJ", _W + "{20,}+", VENDOR, is_bounded=False),
    _row("openai-key", "sk-", r"(?:proj|svcacct|admin|None)-" + _W + "{36,}+", VENDOR),
    _row("openai-key", "sk-", _A + "{32,}+", VENDOR, bits=3.5),
    _row("anthropic-key", "sk-ant-", _W + "{32,}+", VENDOR),
    _row("openrouter-key", "sk-or-", _W + "{40,}+", VENDOR),
    _row("model-hub-token", "hf_", r"[A-Za-z]{34,}+", GITLEAKS, bits=3.2),
    _row("model-hub-token", "api_org_", r"[A-Za-z]{34,}+", GITLEAKS, bits=3.2),
    _row("replicate-token", "r8_", _A + "{37,}+", VENDOR),
    _row("groq-key", "gsk_", _A + "{48,}+", VENDOR),
    _row("xai-key", "xai-", _A + "{70,}+", VENDOR),
    _row("perplexity-key", "pplx-", _A + "{48,}+", VENDOR),
    # talk and mail
    *(_row("slack-token", f"xox{letter}-", r"[A-Za-z0-9-]{18,}+", VENDOR) for letter in "abeoprs"),
    _row("slack-token", "xoxe.xox", r"[bp]-[0-9]-[A-Za-z0-9-]{60,}+", VENDOR),
    _row("slack-token", "xapp-", r"[0-9]-[A-Z0-9]{8,}+-[0-9]{8,}+-[A-Za-z0-9]{32,}+", VENDOR),
    _row("slack-webhook", "hooks.slack.com/", r"[a-z]{8,9}/([A-Za-z0-9/_+]{30,}+)", VENDOR, is_bounded=False),
    _row("discord-webhook", "/api/webhooks/", r"[0-9]{17,20}/(" + _W + "{60,}+)", VENDOR, is_bounded=False),
    _row("teams-webhook", "/IncomingWebhook/", r"(" + _H + "{32}/" + _UUID + ")", GITLEAKS, is_bounded=False),
    Format("telegram-token", ":AA", re.compile("[0-9]{8}:(AA" + _W + "{33})(?!" + _W + ")"), VENDOR, 8, is_bounded=False),
    _row("sendgrid-key", "SG.", _W + r"{16,32}\." + _W + "{32,}+", VENDOR),
    _row("mailgun-key", "key-", r"[a-f0-9]{32}(?![A-Za-z0-9])", VENDOR),
    _row("mailchimp-key", "-us", r"[0-9]{1,2}(?![0-9A-Za-z])", DETECT, lead="[a-f0-9]{32}", n_lead=32),
    _row("brevo-key", "xkeysib-", r"[a-f0-9]{64}-" + _A + "{16}", VENDOR),
    _row("twilio-key", "SK", r"[a-f0-9]{32}(?![A-Za-z0-9])", VENDOR),
    _row("mattermost-hook", "/hooks/", r"([a-z0-9]{26})(?![A-Za-z0-9])", VENDOR, is_bounded=False, bits=3.5),
    # money
    *(
        _row("stripe-key", f"{letter}k_{mode}_", _A + "{16,}+", VENDOR)
        for letter in "sr"
        for mode in ("live", "test", "prod")
    ),
    _row("stripe-key", "whsec_", r"[A-Za-z0-9+/=]{24,}+", VENDOR),
    _row("square-token", "sq0atp-", _W + "{22,}+", VENDOR),
    _row("square-token", "sq0csp-", _W + "{40,}+", VENDOR),
    _row("square-token", "EAAA", _W + "{60}(?!" + _W + ")", VENDOR, bits=4.0),
    _row("shopify-token", "shpat_", _H + "{32}", VENDOR),
    _row("shopify-token", "shpca_", _H + "{32}", VENDOR),
    _row("shopify-token", "shppa_", _H + "{32}", VENDOR),
    _row("shopify-token", "shpss_", _H + "{32}", VENDOR),
    _row("braintree-token", "access_token$", r"(?:production|sandbox)\$[a-z0-9]{16}\$([a-f0-9]{32})", VENDOR),
    _row("razorpay-key", "rzp_live_", _A + "{14,}+", VENDOR),
    _row("flutterwave-key", "FLWSECK", r"(?:_TEST)?-" + _A + "{12,}+", GITLEAKS),
    _row("easypost-key", "EZAK", _A + "{54}", GITLEAKS),
    _row("easypost-key", "EZTK", _A + "{54}", GITLEAKS),
    _row("plaid-token", "access-", r"(?:sandbox|development|production)-(" + _UUID + ")", VENDOR),
    _row("duffel-token", "duffel_", r"(?:test|live)_[A-Za-z0-9_=-]{43}", GITLEAKS),
    # tools
    _row("linear-key", "lin_api_", _A + "{40}", VENDOR),
    _row("notion-token", "ntn_", _A + "{40,}+", VENDOR),
    _row("notion-token", "secret_", _A + "{43}(?!" + _A + ")", VENDOR, bits=3.5),
    _row("postman-key", "PMAK-", _H + "{24}-" + _H + "{34}", VENDOR),
    _row("grafana-key", "glc_", _B + "{32,}+", VENDOR),
    _row("grafana-key", "glsa_", _A + "{32}_" + _H + "{8}", VENDOR),
    _row("grafana-key", "eyJrIjoi", _B + "{60,}+", VENDOR),
    _row("newrelic-key", "NRAK-", _A + "{27}", VENDOR),
    _row("newrelic-key", "NRII-", _W + "{32}", GITLEAKS),
    _row("dynatrace-token", "dt0c01.", _A + r"{24}\." + _A + "{64}", VENDOR),
    _row("planetscale-token", "pscale_", r"(?:pw|tkn|oauth)_[A-Za-z0-9_.=-]{32,}+", VENDOR),
    _row("supabase-key", "sbp_", _H + "{40}", VENDOR),
    _row("supabase-key", "sb_secret_", _W + "{24,}+", VENDOR),
    _row("airtable-token", "pat", _A + r"{14}\." + _H + "{64}", VENDOR),
    _row("harness-key", "pat.", _W + r"{22}\." + _A + r"{24}\." + _A + "{20}", GITLEAKS),
    _row("figma-token", "figd_", _W + "{38,}+", VENDOR),
    _row("dropbox-token", "sl.", r"[A-Za-z0-9=_-]{130,}+", GITLEAKS),
    _row("mapbox-token", "sk.eyJ", _W + r"{60,}+\." + _W + "{20,}+", VENDOR),
    _row("netlify-token", "nfp_", _A + "{36,}+", VENDOR),
    _row("prefect-key", "pnu_", _A + "{36}", GITLEAKS),
    _row("typeform-token", "tfp_", r"[A-Za-z0-9_.=-]{44,}+", GITLEAKS),
    _row("maxmind-key", "_mmk", r"(?![A-Za-z0-9])", GITLEAKS, lead=_A + "{6}_" + _A + "{29}", n_lead=36),
    _row("facebook-token", "EAAC", _A + "{80,}+", GITLEAKS),
    _row("facebook-token", "EAAM", _A + "{80,}+", GITLEAKS),
    _row("tailscale-key", "tskey-", r"[a-z]+-" + _A + r"{8,}+-?[A-Za-z0-9]{0,64}", VENDOR),
    _row("age-key", "AGE-SECRET-KEY-1", r"[0-9A-Z]{58}", VENDOR),
    _row("onepassword-token", "ops_eyJ", _B + "{200,}+", VENDOR),
    _row("onepassword-key", "A3-", r"[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}", VENDOR),
    # kept by no vendor
    _row("jwt", "eyJ", r"[A-Za-z0-9_-]{10,}+\.[A-Za-z0-9_-]{10,}+(?:\.[A-Za-z0-9_-]*+){1,3}", "RFC 7519, RFC 7516"),
    _row("password-hash", "$2", r"[abxy]\$[0-9]{2}\$" + _HASH + "{53}", "crypt(5)"),
    *(
        _row("password-hash", f"${name}$", r"(?:rounds=[0-9]+\$)?" + _HASH + r"{0,16}\$" + _HASH + "{22,}+", "crypt(5)")
        for name in ("1", "5", "6", "apr1")
    ),
    _row("password-hash", "$y$", _HASH + r"{1,12}\$" + _HASH + r"{1,86}\$" + _HASH + "{43}", "crypt(5)"),
    _row("password-hash", "$argon2", r"(?:id|i|d)\$[a-z0-9=,$]{1,64}\$[A-Za-z0-9+/]{8,}+\$[A-Za-z0-9+/]{16,}+", "RFC 9106"),
    _row("password-hash", "pbkdf2_sha", r"(?:1|256|512)\$[0-9]+\$[A-Za-z0-9]+\$" + _B + "{20,}+", VENDOR),
)  # fmt: skip
