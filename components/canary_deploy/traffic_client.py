"""The controller's side of the router's traffic interface: read, write with the version that was read, read back."""

import httpx

from components.avatar.errors import SystemFault
from components.canary_deploy.router import TrafficState
from components.canary_deploy.traffic import Phase, TrafficChange

CONFLICTS = 5  # writes that somebody else may win before we give up


class TrafficClient:
    """Drives the router at `url`."""

    def __init__(self, client: httpx.Client, url: str) -> None:
        self._client, self._url = client, f"{url}/traffic"

    def read(self) -> TrafficState:
        """Raises SystemFault when the router does not answer."""
        try:
            response = self._client.get(self._url)
            response.raise_for_status()
        except httpx.HTTPError as error:
            raise SystemFault(f"the router's traffic cannot be read: {error}") from error
        return TrafficState.model_validate_json(response.content)

    def set(self, phase: Phase, share: float) -> TrafficState:
        """Change the split and read it back. A split that is already so is left alone, so a controller may repeat
        itself after a crash.

        Raises:
            SystemFault: the router refuses, keeps changing under us, or reads back something else than was written.
        """
        for _ in range(CONFLICTS):
            now = self.read().traffic
            if (now.phase, now.share) == (phase, share):
                return self.read()
            wanted = TrafficChange(version=now.version, phase=phase, share=share)
            try:
                response = self._client.put(self._url, json=wanted.model_dump(mode="json"))
            except httpx.HTTPError as error:
                raise SystemFault(f"the router's traffic cannot be written: {error}") from error
            if response.status_code == 409:
                continue  # somebody else was faster: read again
            if response.status_code != 200:
                raise SystemFault(f"the router refuses {phase} at {share:g}: {response.text[:200]}")
            state = self.read()
            if (state.traffic.phase, state.traffic.share) != (phase, share):
                raise SystemFault(f"wrote {phase} at {share:g}, read back {state.traffic}")
            return state
        raise SystemFault(f"the router's traffic was changed by others {CONFLICTS} times running")
