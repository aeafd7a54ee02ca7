"""Sorts the errors of Redis: those that end a call, and transient ones, after which it is tried again."""

from __future__ import annotations

from dataclasses import dataclass

from redis import exceptions

from stores.errors import StoreConfigError, StoreError, StoreFull, StoreUnavailable
from stores.patience import Budget
from stores.redis.server import NoFreeConnection, TooFewReplicas

REFUSED = (exceptions.AuthenticationError, exceptions.AuthorizationError, exceptions.NoPermissionError)
# Transient, beside lost connections: the replies of a server that fails over or moves slots.
TRANSIENT = (
    exceptions.ReadOnlyError,
    exceptions.AskError,
    exceptions.ClusterDownError,
    exceptions.MovedError,
    exceptions.TryAgainError,
)
TRANSIENT_REPLIES = ("NOREPLICAS", "BUSY ", "UNBLOCKED", "WAIT cannot be used with replica")


@dataclass(frozen=True)
class RedisFailures:
    """The failures of one store, whose `url` is shown and so has no password."""

    url: str
    cluster: bool

    errors = (exceptions.RedisError, exceptions.RedisClusterException, TooFewReplicas, NoFreeConnection)

    def final(self, call: str, error: Exception) -> StoreError | None:
        url, text = self.url, str(error)
        scheme = url.partition("+")[0].partition(":")[0]
        if isinstance(error, REFUSED):
            return StoreConfigError(f"{call}: {url} refuses this user or password: {text}")
        if "CERTIFICATE_VERIFY_FAILED" in text:
            return StoreConfigError(
                f"{call}: {url} has a certificate that is not trusted: {text}; see ssl_ca_certs"
            )
        if isinstance(error, exceptions.OutOfMemoryError) or "OOM command" in text:  # from a script
            return StoreFull(f"{call}: {url} is out of memory: raise maxmemory, or delete windows")
        if "MISCONF" in text:
            return StoreFull(f"{call}: {url} cannot write to its disk: make room there")
        if isinstance(error, (exceptions.AskError, exceptions.ClusterCrossSlotError)) and not self.cluster:
            return StoreConfigError(f"{call}: {url} is a node of a cluster: open it as {scheme}+cluster://")
        if "cluster support disabled" in text:
            return StoreConfigError(f"{call}: {url} is not a cluster: open it as {scheme}://")
        transient = isinstance(error, TRANSIENT) or text.startswith(TRANSIENT_REPLIES)
        if isinstance(error, exceptions.ResponseError) and not transient:
            return StoreError(f"{call}: {url} replied: {text}")
        return None

    def gave_up(self, call: str, error: Exception, budget: Budget) -> StoreError:
        url, spent, text = self.url, budget.spent(), str(error).rstrip(".")
        if isinstance(error, exceptions.ReadOnlyError):
            return StoreFull(f"{call}: {url} is read-only after {spent}: connect to the primary")
        if isinstance(error, NoFreeConnection):
            return StoreUnavailable(
                f"{call}: {url}: {text} after {spent}: raise max_connections to the number of threads"
            )
        if isinstance(error, TooFewReplicas):
            return StoreUnavailable(
                f"{call}: {url}: {text} after {spent}. The primary has it, but may lose it; repeat the call "
                "when the replicas are back, or open the store with a smaller min_replicas"
            )
        return StoreUnavailable(
            f"{call}: {url} did not answer after {spent}: {text}. "
            "Check that the server runs and can be reached; patience gives it more time"
        )
