// What only a script can do: decisions as they happen, a page that renews itself, and buttons that copy. Every page works without it.
"use strict";

(() => {
  copyButtons();
  const live = document.getElementById("live");
  if (live && "EventSource" in window) watch(live);

  const renewed = document.querySelector("[data-renew]");
  if (renewed) renew(renewed);

  // The server renders the whole page again; its part takes the place of the old one.
  function renew(part) {
    const state = document.getElementById("renewed");
    setInterval(async () => {
      if (document.hidden) return;
      try {
        const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        const fresh = answer.ok && page.getElementById(part.id);
        if (!fresh) throw new Error(answer.statusText);
        part.replaceChildren(...fresh.childNodes);
        state.textContent = `Renewed at ${new Date().toISOString().slice(11, 19)}.`;
      } catch {
        state.textContent = "The connection is lost; trying again.";
      }
    }, Number(part.dataset.renew));
  }

  function copyButtons() {
    if (!navigator.clipboard) return;
    for (const block of document.querySelectorAll("pre[data-copy]")) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "copy";
      button.textContent = "Copy";
      button.addEventListener("click", async () => {
        await navigator.clipboard.writeText(block.textContent);
        button.textContent = "Copied";
      });
      block.after(button);
    }
  }

  function watch(panel) {
    const rows = document.getElementById("live-rows");
    const pause = document.getElementById("pause");
    const state = document.getElementById("live-state");
    const missedNote = document.getElementById("live-missed");
    const most = Number(panel.dataset.most);
    let paused = false;
    let waiting = [];
    let dropped = 0;
    let missed = 0;
    let drawn = false;
    panel.hidden = false;
    document.getElementById("live-still").hidden = true;

    const source = new EventSource(panel.dataset.feed);
    source.addEventListener("open", () => say("watching"));
    source.addEventListener("error", () => say("the connection is lost; trying again"));
    source.addEventListener("decision", (event) => {
      waiting.push(event.data);
      if (waiting.length > most) {
        waiting.shift();
        dropped += 1;
      }
      if (paused) say();
      else schedule();
    });
    source.addEventListener("missed", (event) => {
      missed += Number(JSON.parse(event.data).count);
      missedNote.textContent = `${missed} were left out: too many at once`;
    });

    pause.addEventListener("click", () => {
      paused = !paused;
      pause.setAttribute("aria-pressed", String(paused));
      pause.textContent = paused ? "Go on" : "Pause";
      say(paused ? "paused" : "watching");
      if (!paused) schedule();
    });

    let last = "";
    function say(text) {
      last = text ?? last;
      const count = waiting.length + dropped;
      const more = paused && count > 0 ? `; ${count} came meanwhile` : "";
      state.textContent = last + more;
    }

    // Drawn together, at most once a frame.
    function schedule() {
      if (drawn) return;
      drawn = true;
      requestAnimationFrame(() => {
        drawn = false;
        if (paused) return;
        for (const text of waiting) {
          const row = rowOf(text);
          if (row) rows.prepend(row);
        }
        waiting = [];
        dropped = 0;
        while (rows.childElementCount > most) rows.lastElementChild.remove();
        const empty = document.getElementById("live-empty");
        if (empty && rows.childElementCount > 0) empty.remove();
      });
    }
  }

  // Text from crawlers and sites only ever becomes text.
  function rowOf(text) {
    let record;
    let recorded;
    let outcome;
    let answer;
    try {
      ({ record, recorded, outcome, answer } = JSON.parse(text));
    } catch {
      return null;
    }
    if (!record?.id) return null;
    const row = document.createElement("tr");
    const cell = (head, className) => {
      const cell = document.createElement("td");
      if (className) cell.className = className;
      cell.dataset.head = head;
      row.append(cell);
      return cell;
    };
    const name = document.createElement("th");
    name.scope = "row";
    name.className = "url";
    const method = document.createElement("span");
    method.className = "method";
    method.textContent = record.method;
    const url = document.createElement(recorded ? "a" : "span");
    if (recorded) url.href = `/decisions/${encodeURIComponent(record.id)}`;
    url.textContent = record.url;
    name.append(method, " ", url);
    row.append(name);
    const time = document.createElement("time");
    time.dateTime = record.time;
    time.textContent = record.time.slice(0, 19).replace("T", " ");
    cell("Time", "when").append(time);
    const reason = document.createElement("span");
    reason.className = "verdict";
    reason.classList.add(outcome);
    reason.textContent = record.reason;
    const reasons = cell("Reason");
    reasons.append(reason);
    if (record.mode === "report" && record.verdict !== "allow") {
      const tag = document.createElement("span");
      tag.className = "tag";
      tag.textContent = "report";
      reasons.append(" ", tag);
    }
    const answered = document.createElement("span");
    answered.className = reason.className;
    answered.textContent = answer;
    cell("Answer").append(answered);
    const rule = cell("Rule", "long");
    if (record.rule) {
      const code = document.createElement("code");
      code.textContent = `${record.rule.text} (line ${record.rule.line})`;
      rule.append(code);
    }
    cell("Agent", "name").textContent = record.agent?.chain?.[0] ?? "*";
    const client = record.client?.name ?? String(record.client?.address ?? "").replace(/:\d+$/, "");
    cell("Client", "name").textContent = client;
    cell("Acknowledged", "name");
    return row;
  }
})();
