"""What a namespace has to choose from when something is launched."""

from console.connection_settings import Settings
from console.launch.field_choices import ChoicesState
from console.session import Session
from tests.contract.cluster import CORE, Cluster
from tests.contract.space import Space


async def test_choices_are_listed_and_secrets_by_name_alone(space: Space, session: Session) -> None:
    for name in ("hub", "registry-login"):
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"token": "hush"}}
        assert (await space.api.create(space.path(CORE, "secrets"), body)).status == 201
    release = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "sh.helm.release.v1.x.v1"}}
    release |= {"type": "helm.sh/release.v1"}
    assert (await space.api.create(space.path(CORE, "secrets"), release)).status == 201
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "1Ti"}},
            "storageClassName": "",
            "volumeName": "nowhere",
        },
    }
    assert (await space.api.create(space.path(CORE, "persistentvolumeclaims"), claim)).status == 201
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "trainer"}}
    assert (await space.api.create(space.path(CORE, "serviceaccounts"), account)).status == 201

    found = await session.read_choices()

    assert found["pvcs"].names == ("data",)
    assert found["pvcs"].details["data"] == "Pending, ReadWriteMany"
    assert found["secrets"].names == ("hub", "registry-login")
    assert {"default", "trainer"} >= set(found["serviceaccounts"].names) >= {"trainer"}
    assert found["priorityclasses"].state is ChoicesState.LISTED
    assert found["images"].names == ()
    assert found["images"].why == f"{space.name} has no JobSets to choose from."
    assert "hush" not in str(found)


async def test_what_may_not_be_listed_is_distinguished_from_what_is_not_there(cluster: Cluster, space: Space) -> None:
    session = await Session.open(Settings(kubeconfig=cluster.reader_kubeconfig, namespace=space.name), kinds=())
    try:
        found = await session.read_choices()
    finally:
        await session.close()
    assert found["secrets"].state is ChoicesState.NOT_ALLOWED
    assert found["secrets"].why == f"No permission to list the Secrets of {space.name}."
    assert found["images"].state is ChoicesState.LISTED
