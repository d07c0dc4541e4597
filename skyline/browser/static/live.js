"use strict";
// Shows a newer profile as soon as there is one, and asks the server what changes would bring.

const form = () => document.getElementById("ask");
const say = (id, text) => {
  const place = document.getElementById(id);
  if (place) place.textContent = text;
};

let asked = 0;
async function ask() {
  const mine = ++asked;
  const batch = form().elements.batch;
  const changed = batch && batch.value && batch.value !== batch.dataset.now;
  const whatifs = [...form().querySelectorAll("input[name=whatif]:checked")].map((box) => box.value);
  if (!changed && whatifs.length === 0) {
    say("answer", "");
    return;
  }
  const question = { batchSize: changed ? Number(batch.value) : null, whatifs };
  const response = await fetch("simulate", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(question),
  });
  const answer = await response.json();
  // An older question may be answered later than a newer one.
  if (mine === asked) say("answer", answer.text);
}

function listen() {
  form().addEventListener("input", ask);
  form().addEventListener("submit", (event) => event.preventDefault());
}

async function redraw() {
  const text = await (await fetch("./")).text();
  const page = new DOMParser().parseFromString(text, "text/html");
  const top = window.scrollY;
  document.title = page.title;
  for (const style of page.querySelectorAll("head style")) {
    if (!document.querySelector("head style")) document.head.append(style.cloneNode(true));
  }
  document.querySelector("main").replaceWith(page.querySelector("main"));
  listen();
  window.scrollTo(0, top);
}

const news = new EventSource("news");
news.onmessage = async (event) => {
  const { number, status } = JSON.parse(event.data);
  if (String(number) !== form().dataset.number) await redraw();
  // Before the first profile the page itself says what is waited for.
  say("status", status || document.getElementById("status")?.dataset.otherwise || "");
};
news.onerror = () => say("status", "The connection to skyline serve is lost: start it again to go on.");
listen();
