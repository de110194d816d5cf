"""The environment of the runtimes' own programs: where their engine and its settings are, and nothing else of the worker's.

An engine's client can be made to hand on its own variables (a name without a value in a file of variables is such a way), so keys
and passwords of the worker must not be among them.
"""

import os
import tempfile

_NAMES = frozenset(
    """
    PATH HOME USER LOGNAME LANG XDG_RUNTIME_DIR XDG_CONFIG_HOME XDG_DATA_HOME DBUS_SESSION_BUS_ADDRESS
    DOCKER_HOST DOCKER_CONTEXT DOCKER_CONFIG DOCKER_TLS DOCKER_TLS_VERIFY DOCKER_CERT_PATH DOCKER_API_VERSION
    CONTAINER_HOST CONTAINER_SSHKEY CONTAINER_CONNECTION CONTAINERS_CONF CONTAINERS_STORAGE_CONF CONTAINERS_REGISTRIES_CONF
    REGISTRY_AUTH_FILE SSL_CERT_FILE SSL_CERT_DIR
    """.split()  # noqa: SIM905
)


def environment() -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if name in _NAMES}
    return own | {"TMPDIR": tempfile.gettempdir()}  # not the program's
