"use strict";
// Shows a newer profile as soon as there is one, asks the server what changes would bring, and has them written.

const form = () => document.getElementById("ask");
const say = (id, text) => {
  const place = document.getElementById(id);
  if (place) place.textContent = text;
};

/** What the panel asks for; null where it asks for nothing. */
function question() {
  const batch = form().elements.batch;
  const changed = batch && batch.value && batch.value !== batch.dataset.now;
  const whatifs = [...form().querySelectorAll("input[name=whatif]:checked")].map((box) => box.value);
  return changed || whatifs.length > 0 ? { batchSize: changed ? Number(batch.value) : null, whatifs } : null;
}

async function post(name, body) {
  const response = await fetch(name, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  return response.json();
}

let asked = 0;
async function ask() {
  const mine = ++asked;
  const wanted = question();
  say("change", "");
  say("diff", "");
  if (!wanted) {
    say("answer", "");
    return;
  }
  const answer = await post("simulate", wanted);
  // An older question may be answered later than a newer one.
  if (mine === asked) say("answer", answer.text);
}

/** The slider and the number show the same size. */
function follow(event) {
  const { batch, size } = form().elements;
  if (!size) return;
  const sizes = size.dataset.sizes.split(" ").map(Number);
  if (event.target === size) {
    batch.value = String(sizes[Number(size.value)]);
  } else if (event.target === batch) {
    const nearest = sizes.reduce((best, one) => (Math.abs(one - batch.value) < Math.abs(best - batch.value) ? one : best));
    size.value = String(sizes.indexOf(nearest));
  }
}

async function change(event) {
  const { name } = event.target;
  const wanted = name === "revert" ? {} : question();
  if (!wanted) {
    say("change", "Choose a batch size or a what-if first.");
    return;
  }
  const answer = await post(name, wanted);
  say("change", answer.text);
  say("diff", answer.diff || "");
}

function listen() {
  form().addEventListener("input", (event) => {
    follow(event);
    ask();
  });
  form().addEventListener("submit", (event) => event.preventDefault());
  for (const button of form().querySelectorAll(".write button")) button.addEventListener("click", change);
  form().querySelector("button[name=timeline]")?.addEventListener("click", openTimeline);
}

async function redraw() {
  const text = await (await fetch("./")).text();
  const page = new DOMParser().parseFromString(text, "text/html");
  const top = window.scrollY;
  document.title = page.title;
  for (const style of page.querySelectorAll("head style")) {
    if (!document.querySelector("head style")) document.head.append(style.cloneNode(true));
  }
  const said = ["change", "diff"].map((id) => [id, document.getElementById(id)?.textContent ?? ""]);
  document.querySelector("main").replaceWith(page.querySelector("main"));
  // A change that was just written is measured: the page goes on saying what it was.
  for (const [id, words] of said) say(id, words);
  if (typeof enhanceTables === "function") enhanceTables();
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
