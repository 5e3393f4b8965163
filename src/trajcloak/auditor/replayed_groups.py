"""Run the algorithm again, and compare who is bundled with whom.

The only module of the auditor that uses what it judges: groups that were chosen with a look at
requests pass every other check.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from trajcloak.auditor.audited_columns import match_ids
from trajcloak.auditor.canonical_files import BUNDLES
from trajcloak.auditor.expected_bundles import ExpectedBundles
from trajcloak.errors import TrajcloakError
from trajcloak.log.types import to_plain
from trajcloak.options import LogColumns, repeat_options
from trajcloak.pipeline import anonymize_again

if TYPE_CHECKING:
    from trajcloak.auditor.release_audit import Audit


def find_other_groups(
    audit: "Audit", manifest: dict[str, Any], columns: LogColumns, bundles: ExpectedBundles
) -> list[str]:
    """Anonymize the log again as the manifest says; the groups must be those of the policy."""
    if "blocks" in manifest["parameters"]:
        return [
            "a window was bundled in blocks, whose size followed from the memory of the run; it "
            "cannot be made again"
        ]
    try:
        asked = repeat_options(manifest, audit.vocabulary)
        again = anonymize_again(audit.log, columns, asked, audit.request_log, audit.progress)
    except TrajcloakError as error:
        return [f"the release cannot be made again: {error.with_options}"]
    policy, members = again.policy, bundles.members
    user = match_ids(to_plain(policy["user_id"].combine_chunks()), bundles.log.ids)
    window, bundle = (policy[name].to_numpy() for name in ("window", "bundle_id"))
    of_member = np.repeat(np.arange(len(members.window)), members.sizes)
    one = np.lexsort([user, window])
    other = np.lexsort([members.user, members.window[of_member]])
    if len(user) != len(of_member) or (user[one] != members.user[other]).any():
        return ["other users are in bundles if the algorithm is run again"]
    moved = int((bundle[one] != of_member[other]).sum())
    if moved:
        return [
            f"{moved:,} of {len(of_member):,} members are in other bundles if the algorithm is run "
            f"again: the groups were not made by it"
        ]
    found = pa.py_buffer((audit.release / BUNDLES).read_bytes())
    if not again.encode_file(BUNDLES).equals(found):
        return ["bundles.parquet is another one if the algorithm is run again"]
    return []
