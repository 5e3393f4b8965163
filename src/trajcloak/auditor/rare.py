"""Values that few users sent: what the release says it did with them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.auditor.arrays import find_runs
from trajcloak.auditor.files import plain, plain_type, settle
from trajcloak.auditor.logs import Log
from trajcloak.auditor.manifest import Manifest
from trajcloak.auditor.parts import Part

OTHER = "other"
"""What a rare text is published as; any other rare value becomes null."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Rule:
    """What is done with rare values: ``keep``, ``drop`` or ``other``.

    Attributes
    ----------
    name
    below
        A value is rare if fewer users of the log sent it.
    """

    name: str
    below: int

    @property
    def keeps(self) -> bool:
        """Whether rare values are published as they are."""
        return self.name == "keep"


def read_rule(manifest: Manifest) -> Rule:
    """Read the rule from the parameters."""
    parameters = manifest.parameters
    return Rule(parameters["rare"], parameters["rare_below"])


def list_senders(log: Log) -> npt.NDArray[np.int64]:
    """List the user of each request of the log, in the order of ``log.request_row``."""
    user = np.empty(len(log.row), np.int64)
    user[log.row] = log.user
    return user[log.request_row]


def list_rare(values: Any, sender: npt.NDArray[np.int64], below: int) -> Any:
    """List the values that fewer than ``below`` users sent, as an Arrow array."""
    encoded = values.combine_chunks().dictionary_encode()
    distinct = encoded.dictionary
    code = pc.fill_null(encoded.indices, -1).to_numpy().astype(np.int64)
    sent = code >= 0
    num_users = int(sender.max()) + 1 if len(sender) else 1
    pairs, _ = find_runs(np.sort(code[sent] * num_users + sender[sent]))
    users = np.bincount(pairs // num_users, minlength=len(distinct))
    return distinct.filter(pa.array(users < below))


def replace_rare(values: Any, rare: Any) -> tuple[Any, Mask]:
    """Replace rare values of a column; also tells where they were."""
    is_rare = pc.is_in(values, value_set=rare, skip_nulls=True)
    other = OTHER if pa.types.is_string(values.type) else None
    replaced = pc.if_else(is_rare, pa.scalar(other, values.type), values)
    return replaced, np.asarray(is_rare)


def find_rare_problems(part: Part, log: Log, rule: Rule) -> list[str]:
    """Check that no published value is rare in the log."""
    if rule.keeps:
        return []
    problems = []
    sender = list_senders(log)
    for name, column in log.requests.items():
        kind = plain_type(part.table.schema.field(name).type)
        try:
            rare = list_rare(settle(pc.cast(column, kind)), sender, rule.below)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            # The comparison of the requests themselves finds that.
            continue
        if rule.name == "other" and pa.types.is_string(kind):
            rare = rare.filter(pc.not_equal(rare, OTHER))
        published = pa.chunked_array([plain(chunk) for chunk in part.table[name].chunks], kind)
        num_found = pc.sum(pc.is_in(published.unique(), value_set=rare, skip_nulls=True)).as_py()
        if num_found:
            problems.append(
                f"attribute '{name}' has {num_found:,} published values that fewer than "
                f"{rule.below:,} users of the log sent"
            )
    return problems
