"""Sorts the errors of Couchbase's client: transient, full, refused, or wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from couchbase import exceptions
from couchbase.exceptions import CouchbaseException

from stores.errors import StoreConfigError, StoreError, StoreFull, StoreUnavailable
from stores.patience import Budget


class NoConnection(CouchbaseException):  # type: ignore[misc]
    """No connection could be made; the message says what is wrong with each host."""


NO_MEMORY = 0x82
TOO_BIG = 0x03
NETWORK_CODES = range(1001, 1100)  # errors that have a code and no class of their own
WRITES = ("put_many", "swap_root")
REFUSED = (exceptions.AuthenticationException, exceptions.BucketNotFoundException)
MISUSED = (exceptions.InvalidArgumentException, exceptions.DurabilityInvalidLevelException)
TRANSIENT = (
    exceptions.AmbiguousTimeoutException,
    exceptions.DocumentLockedException,
    exceptions.DurabilityImpossibleException,
    exceptions.DurabilitySyncWriteAmbiguousException,
    exceptions.DurabilitySyncWriteInProgressException,
    exceptions.InternalServerFailureException,
    NoConnection,
    exceptions.RateLimitedException,
    exceptions.RequestCanceledException,
    exceptions.ServiceUnavailableException,
    exceptions.TemporaryFailException,
    exceptions.TimeoutException,
    exceptions.UnAmbiguousTimeoutException,
)


def is_transient(error: CouchbaseException) -> bool:
    """Whether the same call may succeed a little later."""
    return isinstance(error, TRANSIENT) or getattr(error, "error_code", None) in NETWORK_CODES


def too_big(error: CouchbaseException) -> bool:
    return _status(error)[0] == TOO_BIG


@dataclass(frozen=True)
class CouchbaseFailures:
    """The failures of one store, whose `url` is shown and so has no password."""

    url: str
    bucket: str
    durability: str

    errors = (CouchbaseException,)

    def final(self, call: str, error: CouchbaseException) -> StoreError | None:
        if is_transient(error):
            return None
        if isinstance(error, REFUSED):
            return StoreConfigError(
                f"{call}: {self.url} refuses this user or password, or has no bucket {self.bucket!r}: "
                f"{reason(error)}"
            )
        if isinstance(error, MISUSED):
            return StoreConfigError(f"{call}: {self.url}: {reason(error)}")
        if isinstance(error, exceptions.QuotaLimitedException):
            return StoreFull(f"{call}: {self.url} has used up its quota: {reason(error)}")
        return StoreError(f"{call}: {self.url} replied: {reason(error)}")

    def gave_up(self, call: str, error: CouchbaseException, budget: Budget) -> StoreError:
        url, spent = self.url, budget.spent()
        if call in WRITES and _out_of_memory(error):
            return StoreFull(
                f"{call}: {url} takes no more data after {spent}: {reason(error)}. "
                "Raise the bucket's memory quota, or delete windows"
            )
        if isinstance(error, exceptions.DurabilityImpossibleException):
            return StoreUnavailable(
                f"{call}: {url} has too few data nodes for durability={self.durability} after {spent}: "
                "bring nodes back, or lower it"
            )
        if isinstance(error, NoConnection):
            return StoreUnavailable(f"{call}: {url} did not answer after {spent}: {error.message}")
        return StoreUnavailable(
            f"{call}: {url} did not answer after {spent}: {reason(error)}. "
            "Check that the server runs and can be reached; patience and timeout give it more time"
        )


def reason(error: Exception) -> str:
    """A short text for the error: the client's own text names its source files."""
    status, retried = _status(error)
    message = getattr(error, "message", None)
    details = [] if message in (None, "", "Operation failed") else [str(message).rstrip(".")]
    if status:
        details.append(f"status {status:#x}")
    details += sorted(reason.replace("_", " ") for reason in retried)
    return type(error).__name__ + (f" ({', '.join(details)})" if details else "")


def _status(error: Exception) -> tuple[int | None, set[str]]:
    """The last status of the server, and the client's reasons for its retries."""
    context = getattr(error, "error_context", None)
    details: dict[str, Any] = getattr(context, "_base", None) or {}
    return details.get("status_code"), set(details.get("retry_reasons") or ())


def _out_of_memory(error: CouchbaseException) -> bool:
    status, retried = _status(error)
    return isinstance(error, exceptions.TemporaryFailException) and (
        status == NO_MEMORY or "key_value_temporary_failure" in retried
    )
