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
  if (form.method !== "post" || form.hasAttribute("hx-post") || form.querySelector("[data-again]")) return;
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

// Where the server took the session away, a script is told so by a header.
const ask = async (path, options = {}) => {
  const headers = { "X-Requested-With": "page", "X-CSRF-Token": formToken(), ...options.headers };
  const answer = await fetch(path, { ...options, headers, redirect: "error" });
  const place = answer.headers.get("HX-Redirect");
  if (place) location.assign(place);
  return answer;
};
const formToken = () => JSON.parse(document.body.getAttribute("hx-headers") || "{}")["x-csrf-token"] || "";

// HTML of the server's own templates, which have escaped what is not theirs.
function put(place, html) {
  place.innerHTML = html;
  htmx.process(place);
}

// Files and folders that are dropped, each with its place in the folder.
async function dropped(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry && item.webkitGetAsEntry()).filter(Boolean);
  if (!entries.length) return [...transfer.files].map((file) => ({ file, path: file.name }));
  const found = [];
  const walk = async (entry, folder) => {
    if (entry.name.startsWith(".")) return;
    const path = folder ? `${folder}/${entry.name}` : entry.name;
    if (entry.isFile) {
      found.push({ file: await new Promise((resolve, reject) => entry.file(resolve, reject)), path });
      return;
    }
    const reader = entry.createReader();
    for (;;) {  // a reader gives a folder in pieces
      const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
      if (!some.length) return;
      for (const inner of some) await walk(inner, path);
    }
  };
  for (const entry of entries) await walk(entry, "");
  return found;
}

function droppable(target, take) {
  target.addEventListener("dragover", (event) => {
    event.preventDefault();
    target.classList.add("over");
  });
  target.addEventListener("dragleave", () => target.classList.remove("over"));
  target.addEventListener("drop", async (event) => {
    event.preventDefault();
    target.classList.remove("over");
    take(await dropped(event.dataTransfer));
  });
}

// Documents: one file after the other, so that progress is that of files which are read, and none waits for all.
const drop = document.getElementById("drop");
if (drop) {
  const progress = document.getElementById("progress");
  const outcome = document.getElementById("outcome");
  const upload = async (found) => {
    progress.hidden = false;
    progress.max = found.length || 1;
    progress.value = 0;
    let read = 0;
    for (const { file, path } of found) {
      const form = new FormData();
      form.append("files", file, file.name);
      form.append("paths", path);
      form.append("collection", drop.elements.collection.value);
      const place = document.createElement("div");
      outcome.append(place);
      try {
        const answer = await ask("/documents", { method: "POST", body: form, headers: { "HX-Request": "true" } });
        if (answer.ok) read += 1;
        if (answer.ok || answer.headers.get("content-type")?.startsWith("text/html")) put(place, await answer.text());
        else place.textContent = `${path}: not read, ${answer.status === 413 ? "it is too large" : "the server refused it"}`;
      } catch {
        place.textContent = `${path}: not read, the server does not answer`;
      }
      progress.value += 1;
    }
    progress.hidden = true;
    if (read) {
      const again = document.createElement("p");
      const link = document.createElement("a");
      link.href = location.href;
      link.textContent = "Show all documents";
      again.append(link);
      outcome.append(again);
    }
  };
  droppable(drop, upload);
  const folder = drop.querySelector("[data-folder]");
  folder.webkitdirectory = true;
  for (const input of drop.querySelectorAll("input[type=file]")) {
    input.addEventListener("change", () => {
      upload([...input.files].map((file) => ({ file, path: file.webkitRelativePath || file.name })));
      input.value = "";
    });
  }
}

// An export is dropped where it would be chosen.
const exported = document.getElementById("export-file");
if (exported) {
  droppable(exported.form, (found) => {
    const files = new DataTransfer();
    if (found.length) files.items.add(found[0].file);
    exported.files = files.files;
  });
}

// Chat
const composer = document.getElementById("composer");
if (composer) {
  const log = document.getElementById("log");
  const say = document.getElementById("say");
  const send = document.getElementById("send");
  const stop = document.getElementById("stop");
  const list = document.getElementById("files");
  let session = composer.dataset.session;
  let running = null;
  let files = [];

  const fit = () => {
    say.rows = Math.min(12, Math.max(1, say.value.split("\n").length));
  };
  const showFiles = () => {
    list.replaceChildren(
      ...files.map((file, number) => {
        const item = document.createElement("li");
        const drops = document.createElement("button");
        item.className = "chip";
        drops.type = "button";
        drops.className = "quiet";
        drops.textContent = "✕";
        drops.setAttribute("aria-label", `Leave out ${file.name}`);
        drops.addEventListener("click", () => {
          files.splice(number, 1);
          showFiles();
        });
        item.append(file.name, drops);
        return item;
      }),
    );
  };
  const add = (found) => {
    files.push(...found.map((one) => one.file));
    showFiles();
  };
  const turn = (role, name) => {
    log.querySelector(".hello")?.remove();
    const article = document.createElement("article");
    article.className = `turn ${role}`;
    const heading = document.createElement("h2");
    heading.className = "hidden";
    heading.textContent = name;
    const body = document.createElement("div");
    article.append(heading, body);
    log.append(article);
    return body;
  };
  const bubble = (text) => {
    const box = document.createElement("div");
    box.className = "bubble";
    box.dir = "auto";
    const words = document.createElement("p");
    words.className = "pre";
    words.textContent = text;
    box.append(words);
    return box;
  };
  const busy = (is) => {
    send.hidden = is;
    stop.hidden = !is;
    log.setAttribute("aria-busy", String(is));
  };

  const run = async (text) => {
    if (running || (!text.trim() && !files.length)) return;
    running = new AbortController();
    busy(true);
    const form = new FormData();
    form.append("text", text);
    form.append("session", session);
    for (const file of files) form.append("files", file, file.name);
    turn("user", "You").append(bubble([text, ...files.map((file) => `+ ${file.name}`)].filter(Boolean).join("\n")));
    say.value = "";
    files = [];
    showFiles();
    fit();
    const body = turn("assistant", "Tellback");
    const status = document.createElement("p");
    status.className = "status";
    status.textContent = "…";
    const extra = document.createElement("div");
    const words = document.createElement("div");
    body.append(extra, words, status);
    let said = "";
    let isWhole = false;
    const failed = (sentence) => {
      const notice = document.createElement("p");
      notice.className = "notice bad";
      notice.textContent = sentence;
      words.replaceChildren(notice);
      say.value ||= text;
      fit();
    };
    const take = {
      session: (value) => {
        session = value.session;
        history.replaceState(null, "", `/chat?session=${encodeURIComponent(session)}`);
      },
      status: (value) => (status.textContent = value.text),
      delta: (value) => {
        said += value.text;
        words.replaceChildren(bubble(said));
        status.textContent = "";
      },
      withdrawn: () => {
        said = "";
        words.replaceChildren();
      },
      files: (value) => put(extra, value.html),
      question: (value) => put(extra.appendChild(document.createElement("div")), value.html),
      answer: (value) => put(words, value.html),
      failed: (value) => {
        isWhole = true;
        failed(value.text);
      },
      end: () => (isWhole = true),
    };
    try {
      const answer = await ask("/chat", { method: "POST", body: form, signal: running.signal });
      if (!answer.ok) throw new Error(String(answer.status));
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        const events = (rest + value).split("\n\n");
        rest = events.pop();
        for (const event of events) {
          const [kind, data] = event.split("\n");
          take[kind.slice(7)]?.(JSON.parse(data.slice(6)));
        }
        body.scrollIntoView({ block: "end" });
      }
      if (!isWhole) failed("The answer was broken off; nothing of this turn was kept.");
    } catch (error) {
      if (error.name === "AbortError") failed("Stopped; nothing of this turn was kept.");
      else failed("The server does not answer. Is tellback serve still running? What you wrote is still here.");
    }
    status.remove();
    running = null;
    busy(false);
    say.focus();
  };

  composer.addEventListener("submit", (event) => {
    event.preventDefault();
    delete composer.dataset.sent;
    run(say.value);
  });
  stop.addEventListener("click", () => running?.abort());
  say.addEventListener("input", fit);
  say.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      run(say.value);
    }
  });
  say.addEventListener("paste", (event) => {
    const pasted = [...event.clipboardData.files];
    if (pasted.length) add(pasted.map((file) => ({ file })));
  });
  document.getElementById("pick").addEventListener("change", (event) => {
    add([...event.target.files].map((file) => ({ file })));
    event.target.value = "";
  });
  droppable(composer, add);
  for (const button of log.querySelectorAll("[data-say]")) {
    button.addEventListener("click", () => run(button.dataset.say));
  }
  log.lastElementChild?.scrollIntoView({ block: "end" });

  // A source opens beside the answer.
  const source = document.getElementById("source");
  document.addEventListener("click", async (event) => {
    if (event.target.closest("[data-close]")) source.hidden = true;
    const link = event.target.closest("a[data-source]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const answer = await ask(link.dataset.source, { headers: { "HX-Request": "true" } });
    put(source, await answer.text());
    source.hidden = false;
    source.querySelector("button")?.focus();
    source.querySelector("mark")?.scrollIntoView({ block: "center" });
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !source.hidden) source.hidden = true;
  });
}
