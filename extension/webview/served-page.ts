/** The script of the page of `skyline serve`: it inserts the panel, and shows a newer profile as soon as one exists. */

import { type PageData, Panel } from "./served-panel";

/** Defined in another script of the page. */
declare function enhanceTables(): void;
declare function openTimeline(tell: (text: string) => void): void;

const panel = new Panel();

function say(id: string, text: string): void {
  const found = document.getElementById(id);
  if (found) found.textContent = text;
}

/** Insert the panel with the data of a page. A page without a profile has no place for it. */
function mount(page: Document): void {
  const place = document.getElementById("panel");
  const data = page.getElementById("skyline-data")?.textContent;
  if (!place || !data) return;
  place.replaceWith(panel.root);
  panel.show(JSON.parse(data) as PageData, "writes" in place.dataset);
}

async function redraw(): Promise<void> {
  const page = new DOMParser().parseFromString(await (await fetch("./")).text(), "text/html");
  const [top, main] = [window.scrollY, page.querySelector("main")];
  document.title = page.title;
  const style = page.querySelector("head style");
  if (style && !document.querySelector("head style")) document.head.append(style);
  if (main) document.querySelector("main")?.replaceWith(main);
  enhanceTables();
  mount(page);
  window.scrollTo(0, top);
}

interface News {
  readonly number: number;
  readonly status: string;
  readonly measuring: boolean;
}

async function heard({ number, status, measuring }: News): Promise<void> {
  if (String(number) !== document.querySelector("main")?.dataset.number) await redraw();
  panel.measures(measuring);
  // Before the first profile, the page itself has the text to show.
  say("status", status || (document.getElementById("status")?.dataset.otherwise ?? ""));
}

const news = new EventSource("news");
news.onmessage = ({ data }: MessageEvent<string>) => void heard(JSON.parse(data) as News);
news.onerror = () => say("status", "The connection to skyline serve was lost: start it again to continue.");
document.addEventListener("click", ({ target }) => {
  if (target instanceof Element && target.closest("button[name=timeline]")) openTimeline((text) => say("told", text));
});
// Changing an attribute of the body makes the chart redraw itself.
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", ({ matches }) => document.body.classList.toggle("dark", matches));
mount(document);
