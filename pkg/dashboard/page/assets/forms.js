// Sends each form that changes something once. A form with fields stays until the server has accepted it, so that
// nothing that was typed is lost.

const notice = document.createElement("p");
notice.className = "notice bad";
notice.setAttribute("role", "alert");

// refuse shows why a form changed nothing, beside it. A part of the page that is made anew would not keep it.
function refuse(form, text) {
  document.querySelector("body > .notice")?.remove(); // of the action before
  notice.textContent = text;
  const part = form.closest("[data-live]");
  if (part) part.before(notice);
  else form.append(notice);
  notice.scrollIntoView({ block: "nearest" });
}

async function send(form, button) {
  const body = new URLSearchParams(new FormData(form, button));
  try {
    const answer = await fetch(form.getAttribute("action"), { method: "POST", body, headers: { "X-Form": "1" } });
    const to = answer.headers.get("Location");
    if (to) {
      location.assign(to);
      return;
    }
    refuse(form, answer.headers.get("X-Form") === "refused" ? await answer.text() : `The answer has the status ${answer.status}. Load the page to see whether something was changed.`);
  } catch {
    refuse(form, "The server did not answer. Load the page to see whether something was changed.");
  }
  delete form.dataset.sent;
}

export function startForms() {
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.method !== "post" || event.defaultPrevented) return;
    const sent = form.dataset.sent !== undefined;
    const typed = form.getAttribute("action") === "do" && form.querySelector("textarea, input:not([type=hidden])");
    if (sent || typed) event.preventDefault();
    if (sent) return;
    form.dataset.sent = "";
    if (typed) send(form, event.submitter);
    else setTimeout(() => delete form.dataset.sent, 5000); // a server that does not answer
  });
  addEventListener("pageshow", () => {
    for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
  });
  for (const field of document.querySelectorAll("textarea[data-json]")) {
    const check = () => {
      let reason = "";
      try { JSON.parse(field.value); } catch (error) { reason = `This is not JSON: ${error.message}`; }
      field.setCustomValidity(reason);
    };
    field.addEventListener("input", check);
  }
}
