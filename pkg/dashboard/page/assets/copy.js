// Buttons that copy a command.

// withPath puts the path under which a proxy serves the dashboard into the commands. The server does not know it.
function withPath() {
  const base = new URL("..", location.href).href.slice(0, -1);
  for (const list of document.querySelectorAll("[data-base]")) {
    if (list.dataset.base === base) continue;
    for (const code of list.querySelectorAll("code")) code.textContent = code.textContent.replaceAll(list.dataset.base, base);
  }
}

export function startCopy() {
  withPath();
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const code = button.parentElement.querySelector("code");
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "Copied";
      } catch { // the browser allows it only over TLS or on localhost
        getSelection().selectAllChildren(code);
        button.textContent = "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }
}
