"""A legacy host built with a2a-sdk 1.0.0: protocol 1.0, from before error details were typed.

One process serves the same agent several times, over JSON-RPC and, below `/rest-GUARD`, over HTTP+JSON. What differs
per path is how its owner guards tasks against other users (see GUARDS); everything else is what the SDK answers by
itself. The agent card names the first. The user is the bearer token. Prints `listening PORT` once it accepts
connections.
"""
import json

from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.request_handlers.response_helpers import agent_card_to_dict
from a2a.server.routes import DefaultServerCallContextBuilder, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types.a2a_pb2 import (AgentCapabilities, AgentCard, AgentInterface, Task, TaskState, TaskStatus)
from a2a.utils.errors import InvalidParamsError

from serving import BearerUser, bearer, serve

# How a task of somebody else is refused:
#   scoped   the store looks only among the caller's own tasks
#   text     the store refuses, with the reason as a string in the error's data
#   object   the store refuses, with ids in an object in the error's data
#   guard    a middleware refuses before the SDK sees the call: 403 with a framework's body and headers
GUARDS = ("scoped", "text", "object", "guard")


class ContextBuilder(DefaultServerCallContextBuilder):
    def build_user(self, request):
        return BearerUser(request.headers.get("authorization", ""))


class GuardedStore(InMemoryTaskStore):
    """Knows whose each task is; `guard` says what another user gets to hear."""

    def __init__(self, guard):
        super().__init__()
        self.guard = guard
        self.owners = {}

    async def save(self, task, context):
        self.owners[task.id] = context.user.user_name
        await super().save(task, context)

    async def get(self, task_id, context):
        owner = self.owners.get(task_id)
        if owner not in (None, context.user.user_name):
            if self.guard == "text":
                raise InvalidParamsError("Access denied to task", data=f"task {task_id} belongs to {owner}")
            if self.guard == "object":
                raise InvalidParamsError("Access denied to task", data={"task_id": task_id, "owner_principal": owner})
        return await super().get(task_id, context)


class FinishingExecutor(AgentExecutor):
    """Finishes every task at once, so that there is something to read and nothing left to cancel."""

    async def execute(self, context, event_queue):
        await event_queue.enqueue_event(Task(
            id=context.task_id, context_id=context.context_id,
            status=TaskStatus(state=TaskState.TASK_STATE_COMPLETED)))

    async def cancel(self, context, event_queue):
        raise NotImplementedError


class OwnershipGuard:
    """ASGI middleware of the `guard` paths, as an API gateway or a framework dependency would do it."""

    def __init__(self, app, stores):
        self.app, self.stores = app, stores

    async def __call__(self, scope, receive, send):
        root = scope.get("path", "").split("/")[1:2]
        store = self.stores.get(root[0]) if root and scope["type"] == "http" else None
        if store is None:
            return await self.app(scope, receive, send)
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return None
            body += message.get("body", b"")
            more = message.get("more_body", False)
        user = bearer(dict(scope["headers"]).get(b"authorization", b"").decode("latin-1"))
        task = addressed_task(scope["path"], body)
        owner = store.owners.get(task)
        if owner not in (None, user):
            refusal = JSONResponse(
                {"detail": f"You do not have access to task {task} of {owner}"}, status_code=403,
                headers={"X-Tenant": owner, "ETag": f'"{task}"', "Cache-Control": "private"})
            return await refusal(scope, receive, send)
        pending = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay():
            return pending.pop() if pending else await receive()

        return await self.app(scope, replay, send)


def addressed_task(path, body):
    _, found, rest = path.partition("/tasks/")
    if found:
        return rest.split("/")[0].split(":")[0]
    try:
        request = json.loads(body)
        params = request.get("params", request)
        return params.get("taskId") or params.get("id") or params.get("message", {}).get("taskId")
    except (ValueError, TypeError, AttributeError):
        return None


def agent_card(base, *names):
    return AgentCard(
        name=f"legacy-{names[0]}", version="1", default_input_modes=["text"], default_output_modes=["text"],
        capabilities=AgentCapabilities(streaming=True, push_notifications=False, extended_agent_card=True),
        supported_interfaces=[AgentInterface(url=f"{base}/{name}", protocol_version="1.0",
                                             protocol_binding="HTTP+JSON" if "rest-" in name else "JSONRPC")
                              for name in names])


async def serve_card(request):
    """The card of the first interface of each binding, below the address that the caller used."""
    base = str(request.base_url).rstrip("/")
    return JSONResponse(agent_card_to_dict(agent_card(base, GUARDS[0], f"rest-{GUARDS[0]}")))


def build(base):
    routes, stores = [Route("/.well-known/agent-card.json", serve_card)], {}
    for guard in GUARDS:
        for name in (guard, f"rest-{guard}"):
            rest = name != guard
            card = agent_card(base, name)
            store = GuardedStore(guard)
            handler = DefaultRequestHandler(agent_executor=FinishingExecutor(), task_store=store, agent_card=card)
            if rest:
                # Without the tenant mounts: they match any first segment, and with it the other interfaces.
                routes += [route for route in create_rest_routes(handler, ContextBuilder(), path_prefix=f"/{name}")
                           if not isinstance(route, Mount)]
            else:
                routes += create_jsonrpc_routes(handler, f"/{name}", context_builder=ContextBuilder())
            if guard == "guard":
                stores[name] = store
    return OwnershipGuard(Starlette(routes=routes), stores)


if __name__ == "__main__":
    serve(build)
