// What the page does that HTML alone cannot. Texts of others are only ever set as text; HTML comes from the server.
"use strict";

// The browser's zone and clock, for the times that the server writes. A first visit is shown again with them.
(() => {
  const options = new Intl.DateTimeFormat(undefined, { hour: "numeric" }).resolvedOptions();
  const wanted = { zone: encodeURIComponent(options.timeZone || "UTC"), clock: options.hour12 ? "12" : "24" };
  const known = new Map(document.cookie.split("; ").map((pair) => pair.split("=")));
  let changed = false;
  for (const [name, value] of Object.entries(wanted)) {
    if (known.get(name) === value) continue;
    document.cookie = `${name}=${value}; path=/; max-age=31536000; samesite=strict`;
    changed = true;
  }
  const kept = document.cookie.includes(`zone=${wanted.zone}`);
  if (changed && kept && document.querySelector("main time")) location.reload();
})();

// A form is sent once, however often its button is pressed.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post" || form.hasAttribute("hx-post")) return;
  if (form.dataset.sent) event.preventDefault();
  form.dataset.sent = "1";
});
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});

// The server is gone: say so, and go on when it is back.
document.addEventListener("htmx:sendError", () => tell("The server does not answer. Is tellback serve still running?", "bad"));

function tell(sentence, kind = "") {
  const notice = document.createElement("div");
  notice.className = `notice ${kind}`;
  const words = document.createElement("p");
  words.textContent = sentence;
  notice.append(words);
  document.getElementById("notice").replaceChildren(notice);
}
