// The script of the page without the page: run by test_page.py with node's own test runner, against the server at SITE.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";

import { lines, pretty, send } from "../../src/mainspring/api/browser/answer.mjs";
import { build, curl } from "../../src/mainspring/api/browser/request.mjs";

const { SITE, KEY, KEY_OF_ALL } = process.env;

const SUBMIT = { method: "POST", address: "/v1/jobs", keyed: true };
const LIST = { method: "GET", address: "/v1/jobs", keyed: true };
const EVENTS = { method: "GET", address: "/v1/events", keyed: true, streams: true };
const TEMPLATE = { method: "PUT", address: "/v1/templates/{name}", keyed: true };

function fields(given = {}, body = "", media = "application/json") {
  const parameters = Object.entries(given).flatMap(([place, values]) =>
    Object.entries(values).map(([name, value]) => ({ in: place, name, value })),
  );
  return { parameters, media, body };
}

async function drained(texts) {
  let text = "";
  for await (const piece of texts) text += piece;
  return text;
}

async function answered(request, key = KEY) {
  const { status, headers, texts } = await send(SITE, request, key);
  return { status, headers, text: await drained(texts) };
}

test("every field is sent in its place, and nothing else", () => {
  const operation = { method: "POST", address: "/v1/queues/{name}/of/{id}", keyed: true };
  const given = { path: { name: "a/b $&", id: "1" }, query: { tag: "x&y=z", after: "" }, header: { "If-Match": "e", Other: "" } };
  assert.deepEqual(build(operation, fields(given, "{}"), "acme"), {
    method: "POST",
    path: "/v1/queues/a%2Fb%20%24%26/of/1?tag=x%26y%3Dz",
    headers: [["If-Match", "e"], ["Mainspring-Tenant", "acme"], ["Content-Type", "application/json"]],
    body: "{}",
  });
  const open = { method: "GET", address: "/v1/version", keyed: false };
  assert.deepEqual(build(open, fields(), "acme"), { method: "GET", path: "/v1/version", headers: [], body: undefined });
});

test("a job is submitted once per key, and listed", async () => {
  const body = '{"kind": "add", "arguments": {"a": 1}, "options": {"tags": ["\u00fc&+ #"]}}';
  const request = build(SUBMIT, fields({ header: { "Idempotency-Key": "once \u20ac" } }, body), "");
  const [first, again] = [await answered(request), await answered(request)];
  assert.equal(first.status, "201 Created");
  assert.equal(again.status, "200 OK");
  assert.equal(JSON.parse(again.text).id, JSON.parse(first.text).id);
  assert.ok(first.headers.includes("content-type: application/json"), first.headers);
  const listed = await answered(build(LIST, fields({ query: { tag: "\u00fc&+ #", limit: "5" } }), ""));
  assert.deepEqual(JSON.parse(listed.text).jobs.map((job) => job.id), [JSON.parse(first.text).id]);
});

test("what is wrong is shown as it was answered", async () => {
  const { status, text } = await answered(build(LIST, fields({ query: { limit: "many" } }), ""));
  assert.match(status, /^422 /);
  assert.equal(JSON.parse(text).field, "limit");
  assert.match((await answered(build(LIST, fields(), ""), "")).status, /^401 /);
});

test("a name may contain anything, except what a browser would take for a step", async () => {
  const body = '{"kind": "add", "arguments": {"a": 1}}';
  const refused = build(TEMPLATE, fields({ path: { name: ".." } }, body), "");
  await assert.rejects(answered(refused), /--path-as-is/);
  assert.match(curl(SITE, TEMPLATE, refused), /--path-as-is/);
  const made = await answered(build(TEMPLATE, fields({ path: { name: "mail-1.." } }, body), ""));
  assert.match(made.status, /^20/, made.text);
});

test("a key of all tenants acts for the one that is named", async () => {
  const body = '{"kind": "add", "arguments": {"a": 1}}';
  const { text } = await answered(build(SUBMIT, fields({}, body), "other"), KEY_OF_ALL);
  const { id } = JSON.parse(text);
  const job = { method: "GET", address: "/v1/jobs/{id}", keyed: true };
  const seen = await answered(build(job, fields({ path: { id } }), "other"), KEY_OF_ALL);
  assert.equal(JSON.parse(seen.text).tenant, "other");
});

test("events come line by line while the stream is open, and stop when asked to", { timeout: 20_000 }, async () => {
  const control = new AbortController();
  const { status, texts } = await send(SITE, build(EVENTS, fields(), ""), KEY, control.signal);
  assert.equal(status, "200 OK");
  const [comment, empty] = [(await texts.next()).value, (await texts.next()).value];
  assert.deepEqual([comment, empty], [": here\n", "\n"]);
  const { text } = await answered(build(SUBMIT, fields({}, '{"kind": "add", "arguments": {"a": 7}}'), ""));
  const { id } = JSON.parse(text);
  for (let line = ""; !(line.startsWith("data: ") && JSON.parse(line.slice(6)).id === id); ) {
    const next = await texts.next();
    assert.equal(next.done, false);
    line = next.value;
  }
  control.abort();
  await assert.rejects(drained(texts), { name: "AbortError" });
});

test("lines are whole, however the bytes are cut", async () => {
  const bytes = new TextEncoder().encode("data: \u20ac\u00fc\n\nrest");
  const stream = new ReadableStream({
    start(controller) {
      for (const byte of bytes) controller.enqueue(Uint8Array.of(byte));
      controller.close();
    },
  });
  const heard = [];
  for await (const line of lines(stream)) heard.push(line);
  assert.deepEqual(heard, ["data: \u20ac\u00fc\n", "\n", "rest"]);
});

test("curl sends the same", { timeout: 20_000 }, async () => {
  const body = `{"kind": "add", "arguments": {"a": 1}, "options": {"tags": ["it's $HOME \`x\`"]}}`;
  const request = build(SUBMIT, fields({ header: { "Idempotency-Key": "it's $HOME" } }, body), "");
  const line = curl(SITE, SUBMIT, request);
  assert.ok(!line.includes(KEY));
  const shell = execFileSync("sh", ["-c", line.replace("curl", "curl -sS")], { env: { ...process.env, MAINSPRING_KEY: KEY } });
  const again = await answered(request);
  assert.equal(again.status, "200 OK");
  assert.equal(JSON.parse(shell).id, JSON.parse(again.text).id);
  assert.match(curl(SITE, EVENTS, build(EVENTS, fields(), "")), /^curl -N -H "Authorization: Bearer \$MAINSPRING_KEY" 'http/);
});

test("an indent changes no value", () => {
  const text = '{"a":[1, {} ,[ ]],"n":4611686018427387904,"s":"a \\" {[,:]} \\\\","t":true}';
  const shown = pretty(text);
  assert.equal(
    shown,
    '{\n  "a": [\n    1,\n    {},\n    []\n  ],\n  "n": 4611686018427387904,\n  "s": "a \\" {[,:]} \\\\",\n  "t": true\n}',
  );
  assert.equal(pretty('{"a":1}\n{"a":2}\n'), '{"a":1}\n{"a":2}\n');
  assert.equal(pretty(`"${"\\n".repeat(5_000_000)}"`).length, 10_000_002);
});
