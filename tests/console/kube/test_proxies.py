"""Which proxy leads to which server: what kubectl would take, and ALL_PROXY."""

import pytest

from console.errors import BadKubeconfig
from console.kube.kubeconfig import proxy_of

PROXY = "http://proxy.example:3128"


@pytest.mark.parametrize(
    ("listed", "server", "taken"),
    [
        ("", "https://api.example", True),
        ("*", "https://api.example", False),
        ("other, *", "https://10.1.2.3", False),
        ("api.example", "https://api.example", False),
        ("API.example", "https://Api.Example:6443", False),
        ("example", "https://api.example", False),
        ("ample", "https://api.example", True),
        (".example", "https://api.example", False),
        ("*.example", "https://api.example", False),
        (".api.example", "https://api.example", True),
        ("*.api.example", "https://api.example", True),
        ("api.example:443", "https://api.example", False),
        ("api.example:6443", "https://api.example", True),
        ("10.1.2.3", "https://10.1.2.3", False),
        ("10.1.2.3:443", "https://10.1.2.3", False),
        ("10.1.2.3:80", "https://10.1.2.3", True),
        ("2.3", "https://10.1.2.3", True),
        ("172.16.0.0/12,10.0.0.0/8", "https://10.1.2.3", False),
        ("10.0.0.0/8", "https://11.1.2.3", True),
        ("10.0.0.0/8", "https://api.example", True),
        ("10.0.0.0/99", "https://10.1.2.3", True),
        ("fd00::/8", "https://[fd00::7]:6443", False),
        ("fd00::7", "https://[fd00::7]", False),
        ("[fd00::7]:6443", "https://[fd00::7]:6443", False),
        ("[fd00::7]:6443", "https://[fd00::7]", True),
        (" , ,", "https://api.example", True),
    ],
)
def test_what_no_proxy_leaves_out(listed: str, server: str, taken: bool) -> None:
    for names in (("HTTPS_PROXY", "NO_PROXY"), ("all_proxy", "no_proxy")):
        assert proxy_of(server, None, dict(zip(names, (PROXY, listed), strict=True))) == (PROXY if taken else "")


@pytest.mark.parametrize(
    ("environment", "server", "proxy"),
    [
        ({"HTTP_PROXY": "http://a:1"}, "https://api.example", ""),
        ({"HTTP_PROXY": "http://a:1"}, "http://api.example", "http://a:1"),
        ({"HTTPS_PROXY": "http://a:1", "https_proxy": "http://b:1"}, "https://api.example", "http://a:1"),
        ({"HTTPS_PROXY": "", "https_proxy": "http://b:1"}, "https://api.example", "http://b:1"),
        ({"HTTPS_PROXY": "http://a:1", "ALL_PROXY": "http://b:1"}, "https://api.example", "http://a:1"),
        ({"HTTP_PROXY": "http://a:1", "ALL_PROXY": "http://b:1"}, "https://api.example", "http://b:1"),
        ({"HTTPS_PROXY": "a:1"}, "https://api.example", "http://a:1"),
        ({"ALL_PROXY": "a:1"}, "https://api.example", "http://a:1"),
        ({"ALL_PROXY": "socks5://a:1"}, "https://api.example", ""),
        ({"HTTPS_PROXY": "http://a:1"}, "https://localhost:6443", ""),
        ({"HTTPS_PROXY": "http://a:1"}, "https://127.3.2.1:6443", ""),
        ({"HTTPS_PROXY": "http://a:1"}, "https://[::1]:6443", ""),
        ({"HTTPS_PROXY": "http://a:1"}, "https://[x", ""),
    ],
)
def test_which_variable_counts(environment: dict[str, str], server: str, proxy: str) -> None:
    assert proxy_of(server, None, environment) == proxy


def test_the_proxy_of_the_kubeconfig_counts_before_all_and_everywhere() -> None:
    environment = {"HTTPS_PROXY": "http://a:1", "NO_PROXY": "*"}
    for server in ("https://api.example", "https://127.0.0.1"):
        assert proxy_of(server, "http://anna:s3cr3t@b:1", environment) == "http://anna:s3cr3t@b:1"
    assert "s3cr3t" not in repr(proxy_of("https://h", "http://anna:s3cr3t@b:1", environment))


@pytest.mark.parametrize("address", ["http://x y:80", "http://x\ty:80", "http://", "http://x:port"])
def test_what_is_no_address_is_refused_in_the_name_of_where_it_stands(address: str) -> None:
    with pytest.raises(BadKubeconfig, match=r"^https_proxy is not the address of a proxy\."):
        proxy_of("https://api.example", None, {"https_proxy": address})
    with pytest.raises(BadKubeconfig, match=r"^The kubeconfig's proxy-url is not the address of a proxy\."):
        proxy_of("https://api.example", address, {})
