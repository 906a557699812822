// Sends each form that changes something once. A form stays until the server has accepted it, so that
// nothing that was typed is lost. A payload that is not JSON is not sent. A filter leaves out its empty fields, and its fields
// always say what the page shows.
import { hold, release } from "./live.js";

const notice = document.createElement("p");
notice.className = "notice bad";
notice.setAttribute("role", "alert");

// refuse shows why a form changed nothing, at the one place of all notices: below the head of the page. It stays in sight.
function refuse(text) {
  notice.textContent = text;
  document.querySelector("main").before(notice);
}

// reason returns what an answer says that does not lead to a page. A proxy may have given it.
async function reason(answer) {
  const text = await answer.text(), kind = answer.headers.get("Content-Type") ?? "";
  if (kind.startsWith("text/plain")) return text;
  if (kind.startsWith("application/json")) return `Nothing was changed: ${JSON.parse(text).error}.`;
  return `The answer has the status ${answer.status}. Load the page to see whether something was changed.`;
}

// send sends a form. What the page showed of the action before goes.
async function send(form, button) {
  const body = new URLSearchParams(new FormData(form, button));
  for (const old of document.querySelectorAll(".notice")) old.remove();
  let to;
  try {
    const answer = await fetch(form.getAttribute("action"), { method: "POST", body, headers: { "X-Form": "1" } });
    to = answer.redirected ? answer.url : answer.headers.get("Location");
    if (!to) refuse(await reason(answer));
  } catch {
    refuse("The server did not answer. Press again when it is back, or load the page to see whether something was changed.");
  }
  if (!to) return done(form);
  location.assign(to);
  setTimeout(done, 5000, form); // the person stopped it
}

function done(form) {
  delete form.dataset.sent;
  release();
}

// A push has an id of its own, so that one that is sent twice is stored once. Another payload is another push.
function renew(event) {
  const once = event.target.form?.elements.once;
  if (once) once.value = [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

// shorten leaves out the empty fields of a form whose fields are in the address. The options of a queue stay: an empty one is a
// default there.
function shorten(event) {
  if (event.target.method !== "get" || event.target.elements.whole) return;
  for (const [name, value] of [...event.formData]) if (value === "") event.formData.delete(name);
}

export function startForms() {
  document.addEventListener("formdata", shorten);
  document.addEventListener("input", renew);
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.method !== "post" || event.defaultPrevented) return;
    if (event.submitter?.hasAttribute("formaction")) return; // a download: the page stays
    const sent = form.dataset.sent !== undefined;
    const typed = form.getAttribute("action") === "do"; // a form without fields too: it survives a server that is away
    if (sent || typed) event.preventDefault();
    if (sent) return;
    form.dataset.sent = "";
    hold();
    if (typed) send(form, event.submitter);
    else setTimeout(done, 5000, form);
  });
  const shown = () => {
    for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
    for (const form of document.querySelectorAll("form.filter")) form.reset(); // after Back, a browser shows what was typed
  };
  addEventListener("pageshow", (event) => { if (event.persisted) shown(); });
  for (const field of document.querySelectorAll("textarea[data-json]")) {
    const check = () => {
      let wrong = "";
      try { JSON.parse(field.value); } catch (error) { wrong = `This is not JSON: ${error.message}`; }
      field.setCustomValidity(wrong);
      const beside = document.getElementById(field.dataset.json); // says what is wrong while the person types
      if (beside) beside.textContent = wrong;
    };
    field.addEventListener("input", check);
  }
}
