// Makes the page at /v1/docs send what is typed into its forms. The key stays in its field: it is sent as a header and kept nowhere.
// Answers become text nodes, never markup.

import { send } from "./answer.mjs";
import { build, curl } from "./request.mjs";

const KEPT = 2000; // pieces of a stream that are shown; older ones go
const underWay = new WeakMap();

const key = document.getElementById("key");
const tenant = document.getElementById("tenant");
const forms = [...document.querySelectorAll("form")];

function requestOf(form) {
  const inputs = [...form.querySelectorAll("[data-in]")];
  const parameters = inputs.map((input) => ({ name: input.dataset.name, in: input.dataset.in, value: input.value }));
  const fields = { parameters, media: form.querySelector(".media")?.value, body: form.querySelector("textarea")?.value };
  return build(operationOf(form), fields, tenant.value.trim());
}

function operationOf(form) {
  const { method, address } = form.dataset;
  return { method, address, keyed: "keyed" in form.dataset, streams: "streams" in form.dataset };
}

function followCurl(form) {
  form.querySelector(".curl").textContent = curl(location.origin, operationOf(form), requestOf(form));
}

/** Another content type has another example, unless something was typed. */
function changeMedia(form, select) {
  const body = form.querySelector("textarea");
  if ([...select.options].some((option) => option.dataset.example === body.value)) {
    body.value = select.selectedOptions[0].dataset.example;
  }
}

async function ask(form) {
  if (underWay.has(form)) return; // pressed twice is sent once
  const control = new AbortController();
  const given = operationOf(form).keyed ? key.value.trim() : "";
  underWay.set(form, control);
  const started = performance.now();
  const show = shower(form, started);
  try {
    const { status, headers, texts } = await send(location.origin, requestOf(form), given, control.signal);
    show.head(status, headers);
    for await (const text of texts) show.text(text);
    show.end(status);
  } catch (error) {
    show.end(control.signal.aborted ? "stopped" : `not answered: ${error.message}`);
  } finally {
    underWay.delete(form);
  }
}

/** Writes one answer into its form. */
function shower(form, started) {
  const [status, headers, body] = [".status", ".headers", ".answer"].map((name) => form.querySelector(name));
  const stop = form.querySelector(".stop");
  status.textContent = "sent …";
  headers.textContent = "";
  body.replaceChildren();
  stop.disabled = false;
  return {
    head(told, lines) {
      status.textContent = `${told}, ${Math.round(performance.now() - started)} ms; reading …`;
      headers.textContent = lines.join("\n");
    },
    text(piece) {
      const below = body.scrollTop + body.clientHeight >= body.scrollHeight - 4;
      body.append(piece);
      if (body.childNodes.length > KEPT) body.firstChild.remove();
      if (below && body.childNodes.length > 1) body.scrollTop = body.scrollHeight;
    },
    end(told) {
      status.textContent = `${told}, ${Math.round(performance.now() - started)} ms`;
      if (document.activeElement === stop) form.querySelector(".send").focus();
      stop.disabled = true;
    },
  };
}

for (const form of forms) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    ask(form);
  });
  form.addEventListener("input", (event) => {
    if (event.target.matches("select.media")) changeMedia(form, event.target);
    followCurl(form);
  });
  form.querySelector(".stop").addEventListener("click", () => underWay.get(form)?.abort());
}
tenant.addEventListener("input", () => forms.forEach(followCurl));
document.documentElement.classList.add("scripted");
