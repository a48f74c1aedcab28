"""Makes calls with the current a2a-sdk and reports what its caller gets to see.

Reads a JSON array of calls on standard input, writes one JSON line per call on standard output:
`{"outcome": "result" | "error", "class", "message", "data", "http_status", "retry_after"}`.
A call is `{"url", "binding": "JSONRPC" | "HTTP+JSON", "protocol": "1.0" | "0.3", "op", "task", "context", "token",
"version", "reauthenticate", "discover"}`.
"""
import httpx

from a2a.client import ClientConfig, ClientFactory
from a2a.client.transports.jsonrpc import JsonRpcTransport
from a2a.client.transports.rest import RestTransport
from a2a.compat.v0_3.jsonrpc_transport import CompatJsonRpcTransport
from a2a.compat.v0_3.rest_transport import CompatRestTransport
from a2a.types.a2a_pb2 import (AgentCapabilities, AgentCard, AgentInterface, CancelTaskRequest,
                               GetExtendedAgentCardRequest, GetTaskRequest, Message, Part, Role, SendMessageRequest,
                               SubscribeToTaskRequest, TaskPushNotificationConfig)

from calls import TIMEOUT_S, error_seen, first, serve


class Reauthenticate(httpx.Auth):
    """Starts without a usable token and fetches one when challenged, as OAuth clients do."""

    def auth_flow(self, request):
        request.headers["Authorization"] = "Bearer stale"
        response = yield request
        if response.status_code == 401 and "www-authenticate" in response.headers:
            request.headers["Authorization"] = "Bearer good"
            yield request


def message(call):
    return SendMessageRequest(message=Message(
        message_id="m-1", role=Role.ROLE_USER, parts=[Part(text="hello")],
        task_id=call.get("task", ""), context_id=call.get("context", "")))


async def perform(transport, call):
    op, task = call["op"], call.get("task", "")
    if op == "get":
        return await transport.get_task(GetTaskRequest(id=task))
    if op == "cancel":
        return await transport.cancel_task(CancelTaskRequest(id=task))
    if op == "send":
        return await transport.send_message(message(call))
    if op == "stream":
        return await first(transport.send_message_streaming(message(call)))
    if op in ("stream_all", "subscribe_all"):
        call["events"] = 0
        stream = (transport.send_message_streaming(message(call)) if op == "stream_all"
                  else transport.subscribe(SubscribeToTaskRequest(id=task)))
        async for _ in stream:
            call["events"] += 1
        return None
    if op == "subscribe":
        return await first(transport.subscribe(SubscribeToTaskRequest(id=task)))
    if op == "push":
        return await transport.create_task_push_notification_config(
            TaskPushNotificationConfig(task_id=task, id="p-1", url="http://127.0.0.1:9/push"))
    if op == "card":
        return await transport.get_extended_agent_card(GetExtendedAgentCardRequest())
    raise ValueError(f"unknown op {op}")


async def discover(call):
    """Knows no more than the host's address: the agent card says the rest."""
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {call['token']}"}, timeout=TIMEOUT_S,
                                 trust_env=False) as http:
        try:
            client = await ClientFactory(ClientConfig(httpx_client=http)).create_from_url(call["discover"])
            await client.get_task(GetTaskRequest(id=call["task"]))
            return {"outcome": "result"}
        except Exception as error:  # whatever it is, it is what a caller sees
            return error_seen(error, code=None, data=getattr(error, "data", None))


async def run(call):
    if "discover" in call:
        return await discover(call)
    kind = {("JSONRPC", "1.0"): JsonRpcTransport, ("JSONRPC", "0.3"): CompatJsonRpcTransport,
            ("HTTP+JSON", "1.0"): RestTransport, ("HTTP+JSON", "0.3"): CompatRestTransport}[call["binding"], call["protocol"]]
    card = AgentCard(
        name="agent", version="1", capabilities=AgentCapabilities(streaming=True, extended_agent_card=True),
        supported_interfaces=[AgentInterface(url=call["url"], protocol_binding=call["binding"],
                                             protocol_version=call["protocol"])])
    headers = {"A2A-Version": call.get("version") or call["protocol"]}
    auth = Reauthenticate() if call.get("reauthenticate") else None
    if call.get("token"):
        headers["Authorization"] = f"Bearer {call['token']}"
    async with httpx.AsyncClient(headers=headers, auth=auth, timeout=TIMEOUT_S, trust_env=False) as http:
        transport = kind(http, card, call["url"])
        try:
            await perform(transport, call)
            return {"outcome": "result", "events": call.get("events")}
        except Exception as error:  # whatever it is, it is what a caller sees
            response = getattr(error.__cause__, "response", None)
            return error_seen(error, code=None, data=getattr(error, "data", None), events=call.get("events"),
                              http_status=getattr(response, "status_code", None),
                              retry_after=response.headers.get("retry-after") if response is not None else None)


if __name__ == "__main__":
    serve(run)
