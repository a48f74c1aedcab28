"""What the Python hosts share: users by bearer token, and serving on a free port that is printed."""
import socket

import uvicorn

from a2a.auth.user import User


class BearerUser(User):
    """The user whose name is the bearer token."""

    def __init__(self, authorization):
        self.name = bearer(authorization)

    @property
    def is_authenticated(self):
        return bool(self.name)

    @property
    def user_name(self):
        return self.name


def bearer(authorization):
    return authorization.removeprefix("Bearer ").strip()


def serve(build):
    """Serves `build(base URL)` on a free port and prints `listening PORT` once it accepts connections."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    listener.listen(64)
    print(f"listening {port}", flush=True)
    server = uvicorn.Server(uvicorn.Config(build(f"http://127.0.0.1:{port}"), log_level="warning"))
    server.run(sockets=[listener])
