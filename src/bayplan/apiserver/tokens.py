"""Tokens of service accounts: signed JWTs that expire and go with what they are bound to.

A token names its account by name and uid, its audiences, and perhaps a pod, secret or node that it
is bound to. It counts while it has not expired and all of these exist with the same uid: deleting
the account or the bound object revokes it at the next request. Checked signatures are remembered;
everything else is asked each time. Others verify tokens by OIDC discovery and the public key set.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils

from bayplan import private
from bayplan.api.user import User
from bayplan.apiserver.codec import Object
from bayplan.apiserver.reader import CachedReader
from bayplan.errors import BayplanError, ConfigError, reason

ISSUER = "https://kubernetes.default.svc.cluster.local"
ALGORITHM = "ES256"
MAX_TOKEN = 16 * 1024
REMEMBERED = 4096
LEEWAY = 60.0
_SIDE = 32  # bytes of each half of a signature
_EXTRA = "authentication.kubernetes.io/"


class TokenError(BayplanError):
    """A token that must not be accepted; the text may be told to whoever sent it."""


class Reference(msgspec.Struct, omit_defaults=True):
    name: str = ""
    uid: str = ""


class Bound(msgspec.Struct, omit_defaults=True):
    """The private claims: whose token it is and what it lives with."""

    namespace: str = ""
    serviceaccount: Reference = msgspec.field(default_factory=Reference)
    pod: Reference | None = None
    secret: Reference | None = None
    node: Reference | None = None


class Claims(msgspec.Struct, rename={"bound": "kubernetes.io"}, omit_defaults=True):
    """What a token says."""

    aud: list[str] = msgspec.field(default_factory=list)
    exp: int = 0
    iat: int = 0
    iss: str = ""
    jti: str = ""
    bound: Bound = msgspec.field(default_factory=Bound)
    nbf: int = 0
    sub: str = ""


_decoder = msgspec.json.Decoder(Claims)


def service_account_groups(namespace: str) -> tuple[str, ...]:
    return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")


class Tokens:
    """Issues and checks tokens with one key."""

    def __init__(
        self,
        reader: CachedReader,
        clock: Callable[[], float],
        *,
        key: ec.EllipticCurvePrivateKey | None = None,
        issuer: str = ISSUER,
    ) -> None:
        self._reader = reader
        self._clock = clock
        self._key = key
        self.issuer = issuer
        self.audiences = (issuer,)
        self._checked: dict[str, Claims] = {}  # tokens whose signature is ours

    @property
    def key(self) -> ec.EllipticCurvePrivateKey:
        """The signing key, made when first needed."""
        if self._key is None:
            self._key = ec.generate_private_key(ec.SECP256R1())
        return self._key

    def issue(self, claims: Claims) -> str:
        """Sign a token with these claims."""
        claims.iss = self.issuer
        head = {"alg": ALGORITHM, "kid": self._key_id()}
        signed = f"{_encode(msgspec.json.encode(head))}.{_encode(msgspec.json.encode(claims))}"
        der = self.key.sign(signed.encode(), ec.ECDSA(hashes.SHA256()))
        r, s = utils.decode_dss_signature(der)
        return f"{signed}.{_encode(r.to_bytes(_SIDE, 'big') + s.to_bytes(_SIDE, 'big'))}"

    def check(self, token: str, audiences: tuple[str, ...] = ()) -> tuple[User, list[str]]:
        """Return whose token it is and for which of the audiences. Raises TokenError."""
        claims = self._claims(token)
        now = self._clock()
        if now > claims.exp + LEEWAY:
            raise TokenError("service account token has expired")
        if now < claims.nbf - LEEWAY:
            raise TokenError("service account token is not valid yet")
        shared = [name for name in claims.aud if name in (audiences or self.audiences)]
        if not shared:
            wanted = list(audiences or self.audiences)
            raise TokenError(f"token audiences {claims.aud} is invalid for the target {wanted}")
        self._check_bound(claims.bound)
        return _user(claims), shared

    def _claims(self, token: str) -> Claims:
        known = self._checked.get(token)
        if known is not None:
            return known
        if len(token) > MAX_TOKEN or token.count(".") != 2:
            raise TokenError("invalid bearer token")
        head, body, signature = token.split(".")
        try:
            claims = self._verified(head, body, signature)
        except (ValueError, InvalidSignature, msgspec.MsgspecError, RecursionError) as error:
            raise TokenError("invalid bearer token") from error
        if claims.iss != self.issuer:
            raise TokenError("invalid bearer token")
        if len(self._checked) >= REMEMBERED:
            self._checked.clear()
        self._checked[token] = claims
        return claims

    def _verified(self, head: str, body: str, signature: str) -> Claims:
        if msgspec.json.decode(_decode(head), type=dict[str, Any]).get("alg") != ALGORITHM:
            raise TokenError("invalid bearer token")  # also of `none`: the key decides, not they
        raw = _decode(signature)
        if len(raw) != 2 * _SIDE:
            raise TokenError("invalid bearer token")
        r, s = int.from_bytes(raw[:_SIDE], "big"), int.from_bytes(raw[_SIDE:], "big")
        der = utils.encode_dss_signature(r, s)
        self.key.public_key().verify(der, f"{head}.{body}".encode(), ec.ECDSA(hashes.SHA256()))
        return _decoder.decode(_decode(body))

    def _check_bound(self, bound: Bound) -> None:
        where, account = bound.namespace, bound.serviceaccount
        found = self._reader.get("", "serviceaccounts", where, account.name)
        if found is None:
            raise TokenError(f'serviceaccounts "{account.name}" not found')
        if found["metadata"].get("uid") != account.uid:
            uid = found["metadata"].get("uid")
            raise TokenError(f"service account UID ({uid}) does not match claim ({account.uid})")
        self._check_exists("secrets", where, bound.secret)
        self._check_exists("pods", where, bound.pod)
        if bound.pod is None:  # the node of a pod's token only informs
            self._check_exists("nodes", "", bound.node)

    def _check_exists(self, resource: str, namespace: str, wanted: Reference | None) -> None:
        if wanted is None:
            return
        found = self._reader.get("", resource, namespace, wanted.name)
        if found is None or found["metadata"].get("uid") != wanted.uid:
            raise TokenError("service account token has been invalidated")

    def _key_id(self) -> str:
        der = self.key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return _encode(hashlib.sha256(der).digest())

    def key_set(self) -> Object:
        """Return the public key as a JSON Web Key Set."""
        numbers = self.key.public_key().public_numbers()
        key = {
            "use": "sig",
            "kty": "EC",
            "kid": self._key_id(),
            "crv": "P-256",
            "alg": ALGORITHM,
            "x": _encode(numbers.x.to_bytes(_SIDE, "big")),
            "y": _encode(numbers.y.to_bytes(_SIDE, "big")),
        }
        return {"keys": [key]}

    def discovery(self) -> Object:
        """Return the OIDC provider configuration."""
        return {
            "issuer": self.issuer,
            "jwks_uri": f"{self.issuer}/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [ALGORITHM],
        }


def _user(claims: Claims) -> User:
    bound = claims.bound
    extra: list[tuple[str, tuple[str, ...]]] = []
    if claims.jti:
        extra.append((f"{_EXTRA}credential-id", (f"JTI={claims.jti}",)))
    for word, reference in (("node", bound.node), ("pod", bound.pod)):
        if reference is not None:
            extra.append((f"{_EXTRA}{word}-name", (reference.name,)))
            extra.append((f"{_EXTRA}{word}-uid", (reference.uid,)))
    account = bound.serviceaccount
    name = f"system:serviceaccount:{bound.namespace}:{account.name}"
    return User(name, service_account_groups(bound.namespace), account.uid, tuple(extra))


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    if not text.isascii() or "=" in text:
        raise ValueError("not base64 without padding")
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


def load_key(path: Path, *, create: bool = False) -> ec.EllipticCurvePrivateKey:
    """Read the signing key (PEM, P-256); `create` makes one where there is none."""
    if create and not path.exists():
        from bayplan.apiserver.tls import private_pem

        key = ec.generate_private_key(ec.SECP256R1())
        private.write(path, private_pem(key))
        return key
    try:
        found = serialization.load_pem_private_key(path.read_bytes(), None)
    except (OSError, ValueError, TypeError) as error:
        why = reason(error) if isinstance(error, OSError) else "it is damaged, or no key in PEM"
        raise ConfigError(
            f'reading signing key "{path}": {why}; name an EC key on P-256'
        ) from error
    if not isinstance(found, ec.EllipticCurvePrivateKey) or found.curve.name != "secp256r1":
        raise ConfigError(f'signing key "{path}" must be an EC key on P-256 (prime256v1)')
    return found
