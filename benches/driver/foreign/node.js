// http-proxy-middleware that passes everything, or (`rewrite`) gives errors the shape of E-1 and O-1.
// `node node.js PORT UPSTREAM [rewrite]`; the module is looked for where NODE_PATH says.
const http = require('node:http');
const { createProxyMiddleware, responseInterceptor } = require('http-proxy-middleware');

const [port, upstream, mode] = process.argv.slice(2);
const REASONS = { '-32001': ['TASK_NOT_FOUND', 'Task not found'], '-32004': ['UNSUPPORTED_OPERATION', 'This operation is not supported'] };
const KEPT = /^(content-type|content-length|www-authenticate|retry-after|ratelimit-.*|allow|a2a-(version|extensions)|access-control-.*|cache-control|vary|date|trace(parent|state)|connection|transfer-encoding)$/;
const TASK_ADDRESSED = new Set(['GetTask', 'CancelTask', 'SubscribeToTask']);

function parsed(text) {
  try { return JSON.parse(text); } catch { return undefined; }
}

const rewriting = responseInterceptor(async (body, answer, request, response) => {
  const said = answer.statusCode < 400 ? parsed(body) : undefined;
  if (said?.result !== undefined && said.error == null) return body;
  const call = parsed(Buffer.concat(request.pieces)) ?? {};
  const task = TASK_ADDRESSED.has(call.method) ? call.params?.id : undefined;
  const code = answer.statusCode === 403 && task ? -32001 : said?.error?.code;
  if (!REASONS[code]) return body;
  const [reason, message] = REASONS[code];
  const info = { '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason, domain: 'a2a-protocol.org' };
  if (code === -32001 && task) info.metadata = { taskId: task };
  response.statusCode = 200;
  for (const name of response.getHeaderNames()) if (!KEPT.test(name)) response.removeHeader(name);
  return JSON.stringify({ jsonrpc: '2.0', id: call.id ?? null, error: { code, message, data: [info] } });
});

const proxy = createProxyMiddleware({
  target: `http://${upstream}`,
  agent: new http.Agent({ keepAlive: true, maxSockets: 256 }),
  ...(mode === 'rewrite' && { selfHandleResponse: true, on: { proxyRes: rewriting } }),
});

http.createServer({ keepAlive: true }, (request, response) => {
  if (mode === 'rewrite') {
    request.pieces = [];
    request.on('data', (piece) => request.pieces.push(piece));
    request.pause(); // until the proxy pipes it
  }
  proxy(request, response, () => response.writeHead(404).end());
}).listen(Number(port), '127.0.0.1');
