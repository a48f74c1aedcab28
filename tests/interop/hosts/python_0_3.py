"""A legacy host built with a2a-sdk 0.3.26: protocol 0.3, `tasks/get` and its kin.

One process serves the same agent several times. What differs per path is how its owner guards tasks
against other users (see GUARDS). The user is the bearer token. Prints `listening PORT` once it
accepts connections.
"""
from starlette.applications import Starlette
from starlette.responses import JSONResponse

from a2a.server.agent_execution import AgentExecutor
from a2a.server.apps.jsonrpc import A2AStarletteApplication
from a2a.server.apps.jsonrpc.jsonrpc_app import CallContextBuilder
from a2a.server.context import ServerCallContext
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, InvalidParamsError, Task, TaskState, TaskStatus
from a2a.utils.errors import ServerError

from serving import BearerUser, serve

# How a task of somebody else is refused:
#   scoped   the store looks only among the caller's own tasks
#   object   the store refuses, with ids in an object in the error's data
#   guard    the store's refusal becomes a 403 of the web framework, with its body and headers
GUARDS = ("scoped", "object", "guard")


class ContextBuilder(CallContextBuilder):
    def build(self, request):
        return ServerCallContext(user=BearerUser(request.headers.get("authorization", "")),
                                 state={"headers": dict(request.headers), "request": request})


class GuardedStore(InMemoryTaskStore):
    """Knows whose each task is; `guard` says what another user gets to hear."""

    def __init__(self, guard):
        super().__init__()
        self.guard = guard
        self.owners = {}

    async def save(self, task, context=None):
        self.owners[task.id] = context.user.user_name
        await super().save(task, context)

    async def get(self, task_id, context=None):
        owner = self.owners.get(task_id)
        if owner not in (None, context.user.user_name):
            if self.guard == "object":
                raise ServerError(error=InvalidParamsError(
                    message="Access denied to task", data={"task_id": task_id, "owner_principal": owner}))
            if self.guard == "guard":
                context.state["request"].state.refusal = (task_id, owner)
            return None
        return await super().get(task_id, context)


class FinishingExecutor(AgentExecutor):
    """Finishes every task at once, so that there is something to read and nothing left to cancel."""

    async def execute(self, context, event_queue):
        await event_queue.enqueue_event(Task(
            id=context.task_id, context_id=context.context_id, status=TaskStatus(state=TaskState.completed)))

    async def cancel(self, context, event_queue):
        raise NotImplementedError


class GuardedApplication(A2AStarletteApplication):
    """Answers 403 where the store noted a refusal, as a framework's exception handler would."""

    async def _handle_requests(self, request):
        answer = await super()._handle_requests(request)
        refusal = getattr(request.state, "refusal", None)
        if refusal is None:
            return answer
        task, owner = refusal
        return JSONResponse({"detail": f"You do not have access to task {task} of {owner}"}, status_code=403,
                            headers={"X-Tenant": owner, "ETag": f'"{task}"', "Cache-Control": "private"})


def build(base):
    routes = []
    for guard in GUARDS:
        path = f"/{guard}"
        card = AgentCard(
            name=f"legacy-{guard}", description="finishes at once", version="1", url=f"{base}{path}",
            preferred_transport="JSONRPC", default_input_modes=["text"], default_output_modes=["text"], skills=[],
            capabilities=AgentCapabilities(streaming=True, push_notifications=False),
            supports_authenticated_extended_card=False)
        handler = DefaultRequestHandler(agent_executor=FinishingExecutor(), task_store=GuardedStore(guard))
        application = GuardedApplication(agent_card=card, http_handler=handler, context_builder=ContextBuilder())
        routes += [r for r in application.routes(rpc_url=path) if r.path == path]
    return Starlette(routes=routes)


if __name__ == "__main__":
    serve(build)
