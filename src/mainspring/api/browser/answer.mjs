// Sending a request and reading its answer, as text that is ready to be shown. Knows no page, so that node can test it.

import { isAstray } from "./request.mjs";

const DULL = new Set(["connection", "content-length", "date", "keep-alive", "server", "transfer-encoding"]);

/**
 * Send what `build` made. Gives the head, { status, headers }, and `texts`: what comes, to be shown piece by piece. A stream of events
 * comes line by line, as it happens.
 */
export async function send(origin, request, key, signal) {
  if (isAstray(request)) throw new Error('a browser cannot send "." or ".." as a name; curl --path-as-is can');
  const headers = request.headers.map(([name, value]) => [name, inBytes(value)]);
  if (key) headers.push(["Authorization", `Bearer ${inBytes(key)}`]);
  const { method, body } = request;
  const response = await fetch(origin + request.path, { method, headers, body, signal, cache: "no-store" });
  const media = response.headers.get("content-type") ?? "";
  return {
    status: `${response.status} ${response.statusText}`.trim(),
    headers: [...response.headers].filter(([name]) => !DULL.has(name)).map(([name, value]) => `${name}: ${value}`),
    texts: media.startsWith("text/event-stream") ? lines(response.body) : whole(response),
  };
}

/** The server reads headers as UTF-8, and `fetch` takes bytes. */
function inBytes(text) {
  return String.fromCharCode(...new TextEncoder().encode(text));
}

async function* whole(response) {
  const text = await response.text();
  yield (response.headers.get("content-type") ?? "").includes("json") ? pretty(text) : text;
}

/** The lines of a stream of bytes, each as soon as it is whole. */
export async function* lines(stream) {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    const parts = (rest + decoder.decode(value, { stream: !done })).split("\n");
    rest = parts.pop();
    for (const part of parts) yield `${part}\n`;
    if (done) break;
  }
  if (rest) yield rest;
}

/**
 * JSON with an indent. Works on the text, because numbers beyond 2^53 would come out of JSON.parse as other numbers.
 * What is not one JSON value stays as it is: lines of JSON are read best as lines.
 */
export function pretty(text) {
  try {
    JSON.parse(text);
  } catch {
    return text;
  }
  let depth = 0;
  let inString = false;
  const newline = () => `\n${"  ".repeat(depth)}`;
  return text.replace(/\\.|"|[[{]\s*[\]}]|[[{\]},:]|\s+/g, (token) => {
    if (token === '"') inString = !inString;
    if (inString || token === '"') return token;
    if (token === "{" || token === "[") return (depth++, token + newline());
    if (token === "}" || token === "]") return (depth--, newline() + token);
    if (token === ",") return token + newline();
    return token === ":" ? ": " : token.replace(/\s+/g, "");
  });
}
