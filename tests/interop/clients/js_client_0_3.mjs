// Makes calls with @a2a-js/sdk 0.3.14, a client that knows only protocol 0.3, and reports what its caller gets to see.
//
// Reads a JSON array of calls on standard input, writes one JSON line per call on standard output:
// `{"outcome": "result" | "error", "class", "message", "code", "data", "http_status"}`. A call is
// `{"url", "op", "task", "token"}`; no A2A-Version is sent, as this version did not know it.
import { ClientFactory, JsonRpcTransportFactory } from "@a2a-js/sdk/client";

// Longer than any answer of a host on this machine takes.
const TIMEOUT_MS = 30_000;

const message = ({ task }) => ({
  message: {
    kind: "message", messageId: "m-1", role: "user", parts: [{ kind: "text", text: "hello" }],
    ...(task ? { taskId: task } : {}),
  },
});

async function first(stream) {
  for await (const event of stream) return event;
  return undefined;
}

const operations = {
  get: (c, call) => c.getTask({ id: call.task }),
  cancel: (c, call) => c.cancelTask({ id: call.task }),
  send: (c, call) => c.sendMessage(message(call)),
  stream: (c, call) => first(c.sendMessageStream(message(call))),
  subscribe: (c, call) => first(c.resubscribeTask({ id: call.task })),
  push: (c, call) => c.setTaskPushNotificationConfig({
    taskId: call.task, pushNotificationConfig: { url: "http://127.0.0.1:9/push" },
  }),
};

async function run(call) {
  const network = {};
  const fetchImpl = async (url, init) => {
    const headers = new Headers(init?.headers);
    headers.set("authorization", `Bearer ${call.token}`);
    const response = await fetch(url, { ...init, headers, signal: AbortSignal.timeout(TIMEOUT_MS) });
    network.status = response.status;
    return response;
  };
  const client = await new ClientFactory({ transports: [new JsonRpcTransportFactory({ fetchImpl })] })
    .createFromAgentCard({
      name: "agent", description: "", version: "1", protocolVersion: "0.3.0", url: call.url,
      preferredTransport: "JSONRPC", capabilities: { streaming: true, pushNotifications: true },
      defaultInputModes: [], defaultOutputModes: [], skills: [],
    });
  try {
    await operations[call.op](client, call);
    return { outcome: "result" };
  } catch (error) {
    // Errors out of a stream arrive wrapped: the typed one is the cause.
    const typed = error.constructor.name === "Error" && error.cause instanceof Error ? error.cause : error;
    const inner = typed.errorResponse?.error;
    return {
      outcome: "error", class: typed.constructor.name, message: typed.message, code: inner?.code ?? null,
      data: inner?.data ?? null, http_status: network.status,
    };
  }
}

let input = "";
for await (const chunk of process.stdin) input += chunk;
for (const call of JSON.parse(input)) console.log(JSON.stringify(await run(call)));
