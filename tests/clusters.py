"""A cluster of two processes, whose connections are encrypted and authenticated."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from distributed import LocalCluster, Security

CERTIFICATES = ("ca.pem", "me.pem", "me.key")


@contextmanager
def start_cluster() -> Iterator[LocalCluster]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
            silence_logs=logging.CRITICAL,
            security=Security.temporary(),
        ) as cluster:
            yield cluster


def write_certificates(cluster: LocalCluster, folder: Path) -> list[Path]:
    """Write what a client needs: the authority, the certificate, its key."""
    security = cluster.security
    texts = security.tls_ca_file, security.tls_client_cert, security.tls_client_key
    files = [folder / name for name in CERTIFICATES]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    return files
