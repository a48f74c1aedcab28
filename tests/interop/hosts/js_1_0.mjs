// A host built with @a2a-js/sdk 1.3.0: protocol 1.0 on Express, over JSON-RPC and HTTP+JSON. The user is the bearer
// token; the store looks only among the caller's own tasks. Prints `listening PORT` once it accepts connections.
import express from "express";
import { TaskState } from "@a2a-js/sdk";
import { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } from "@a2a-js/sdk/server";
import { jsonRpcHandler, restHandler } from "@a2a-js/sdk/server/express";

const bearer = (request) => (request.header("authorization") ?? "").replace(/^Bearer /, "").trim();

// Finishes every task at once, so that there is something to read and nothing left to cancel.
const executor = {
  async execute(context, bus) {
    bus.publish(AgentEvent.task({
      id: context.taskId, contextId: context.contextId, artifacts: [], history: [], metadata: undefined,
      status: { state: TaskState.TASK_STATE_COMPLETED, message: undefined, timestamp: undefined },
    }));
    bus.finished();
  },
  async cancelTask() {},
};

const app = express();
const listener = app.listen(0, "127.0.0.1", () => {
  const { port } = listener.address();
  const base = `http://127.0.0.1:${port}`;
  const card = {
    name: "host", description: "finishes at once", version: "1", skills: [], securitySchemes: {}, signatures: [],
    securityRequirements: [], defaultInputModes: ["text"], defaultOutputModes: ["text"], provider: undefined,
    capabilities: { streaming: true, pushNotifications: false, extensions: [], extendedAgentCard: false },
    supportedInterfaces: [
      { url: `${base}/scoped`, protocolBinding: "JSONRPC", protocolVersion: "1.0", tenant: "" },
      { url: `${base}/rest-scoped`, protocolBinding: "HTTP+JSON", protocolVersion: "1.0", tenant: "" },
    ],
  };
  app.get("/.well-known/agent-card.json", (request, response) => response.json(card));
  const options = {
    requestHandler: new DefaultRequestHandler(card, new InMemoryTaskStore(), executor),
    userBuilder: async (request) => ({ isAuthenticated: true, userName: bearer(request) }),
  };
  app.use("/scoped", jsonRpcHandler(options));
  app.use("/rest-scoped", restHandler(options));
  console.log(`listening ${port}`);
});
