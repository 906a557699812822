// Keeps a form from being sent twice, and one with a payload that is not JSON from being sent at all.

export function startForms() {
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.method !== "post") return;
    if (form.dataset.sent !== undefined) return event.preventDefault();
    form.dataset.sent = "";
    setTimeout(() => delete form.dataset.sent, 5000); // a download, or a server that does not answer
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
