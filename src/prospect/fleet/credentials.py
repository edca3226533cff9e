"""Keys for S3 that stand in the files of the AWS command line.

obstore asks the environment, web identities, containers and the instance's metadata by itself; it
reads no files. These are asked behind the environment, as by the AWS SDKs.

Source: AWS SDKs and Tools Reference Guide, "Shared config and credentials files"; what asks for
other programs, roles or single sign-on is not followed.
"""

from __future__ import annotations

import configparser
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_IN_ENVIRONMENT = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_SKIP_SIGNATURE",
)
_KEYS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
_MOST_BYTES = 1 << 20


def settings_of_files(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return settings of an S3 client that the environment lacks and files have.

    Files that are not there or mean nothing have none.
    """
    profile = environment.get("AWS_PROFILE") or "default"
    home = os.path.expanduser("~/.aws/")
    keys = _section(environment.get("AWS_SHARED_CREDENTIALS_FILE") or home + "credentials", profile)
    in_config = profile if profile == "default" else f"profile {profile}"
    config = _section(environment.get("AWS_CONFIG_FILE") or home + "config", in_config)
    found: dict[str, str] = {}
    if not any(environment.get(name) for name in _IN_ENVIRONMENT):
        source = keys if _KEYS[0] in keys else config
        found |= {name: source[name] for name in _KEYS if source.get(name)}
        if len(found) < 2:
            found = {}
    if config.get("region") and not any(environment.get(name) for name in _REGIONS):
        found["aws_region"] = config["region"]
    if config.get("endpoint_url") and not endpoint_of(environment):
        found["aws_endpoint"] = config["endpoint_url"]
    return found


def endpoint_of(environment: Mapping[str, str] = os.environ) -> str:
    """Return the URL of the S3 server that the environment names, "" for Amazon's."""
    return next((environment[name] for name in _ENDPOINTS if environment.get(name)), "")


def _section(path: str, name: str) -> dict[str, str]:
    parser = configparser.RawConfigParser(strict=False)
    try:
        with open(path, encoding="utf-8") as file:
            parser.read_string(file.read(_MOST_BYTES))
        return dict(parser.items(name))
    except (OSError, ValueError, configparser.Error):
        return {}
