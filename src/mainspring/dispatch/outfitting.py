"""What an attempt needs beside its row, at the moment it is handed over: sealed arguments opened, secrets fetched.

Nothing of that is stored. An attempt that cannot have what it needs ends as failed, reason `secrets`, before a worker sees it: for
good where the secret does not exist (a replay helps once it does), else it is tried again, perhaps by a node that has the key.
"""

from collections.abc import Sequence

from msgspec import structs

from mainspring.core.lifecycle import Reason
from mainspring.errors import MainspringError, NotFoundError, SecretsError
from mainspring.secrets.envelope import is_sealed
from mainspring.secrets.sealing import Sealing
from mainspring.secrets.vault import Opened, Vault
from mainspring.wire import Assignment, Failure, Outcome, OutcomeType

Outfitted = Assignment | Outcome


class Outfitter:
    def __init__(self, sealing: Sealing, vault: Vault) -> None:
        self._sealing = sealing
        self._vault = vault

    async def outfit(self, assignments: Sequence[Assignment]) -> dict[bytes, Outfitted]:
        """By job, those that need something: as they can be handed over, or as they have ended."""
        needy = [each for each in assignments if each.options.secrets or is_sealed(each.arguments)]
        if not needy:
            return {}
        names = {(each.tenant, name) for each in needy for name in each.options.secrets.values()}
        opened = await self._vault.open(names) if names else {}
        return {each.job: self._outfitted(each, opened) for each in needy}

    def _outfitted(self, bare: Assignment, opened: dict[tuple[str, str], Opened]) -> Outfitted:
        values = {own: opened[bare.tenant, name] for own, name in bare.options.secrets.items()}
        for value in values.values():
            if isinstance(value, MainspringError):
                return not_opened(bare.job, bare.attempt, value)
        try:
            arguments = self._sealing.open(bare.tenant, bare.job, "arguments", bare.arguments)
        except SecretsError as error:
            return not_opened(bare.job, bare.attempt, error)
        return structs.replace(bare, arguments=arguments, secrets=values)


def not_opened(job: bytes, attempt: int, error: MainspringError) -> Outcome:
    """How an attempt ends for which something could not be opened, or sealed."""
    why = Failure(Reason.SECRETS, type(error).__name__, str(error))
    return Outcome(job, attempt, OutcomeType.FAILED, failure=why, retry=not isinstance(error, NotFoundError))
