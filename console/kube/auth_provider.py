"""Credentials from a kubeconfig's auth-provider entry; importing `kubernetes`, only here, takes half a second."""

# mypy: allow-untyped-calls
from __future__ import annotations

import asyncio
import binascii
from typing import Any

from kubernetes.aio.client import Configuration
from kubernetes.aio.config import ConfigException
from kubernetes.aio.config.kube_config import KubeConfigLoader

from console.errors import NotLoggedIn
from console.kube.login import AGAIN, LIMIT, Credential


async def ask_provider(provider: dict[str, Any]) -> Credential:
    """Ask an auth provider (OIDC, the old GCP one) for a token, refreshing it if it is old; raises NotLoggedIn."""
    name = str(provider.get("name", ""))
    config = {
        "current-context": "one",
        "contexts": [{"name": "one", "context": {"cluster": "one", "user": "one"}}],
        "clusters": [{"name": "one", "cluster": {"server": "https://localhost"}}],
        "users": [{"name": "one", "user": {"auth-provider": provider}}],
    }
    found = Configuration()
    try:
        async with asyncio.timeout(LIMIT):
            await KubeConfigLoader(config).load_and_set(found)
    except (ConfigException, ValueError, KeyError, binascii.Error, OSError, TimeoutError) as error:
        raise NotLoggedIn(f'The auth provider "{name}" of the kubeconfig failed: {error}.', AGAIN) from error
    token = found.api_key.get("BearerToken", "")
    if not token:
        raise NotLoggedIn(f'The kubeconfig uses the auth provider "{name}", which gave no token.', AGAIN)
    return Credential(token)
