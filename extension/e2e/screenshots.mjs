// Takes the pictures of the README: the window in a light and a dark theme, and an animation of a drag.
import * as fs from "node:fs";
import * as path from "node:path";
import { animated } from "./animation.mjs";
import { there, until } from "./workbench.mjs";

const THEMES = { light: "Default Light Modern", dark: "Default Dark Modern" };
/** The classes that the workbench sets on a webview's body for these themes. */
const CLASSES = { light: "vscode-light", dark: "vscode-dark" };

export async function takeScreenshots(window, folder) {
  fs.mkdirSync(folder, { recursive: true });
  const { page, view } = window;
  await page.setViewportSize({ width: 1280, height: 800 });
  await window.profiled();
  await page.keyboard.press("Escape");
  for (const [name, theme] of Object.entries(THEMES)) {
    window.bench.setUser({ "workbench.colorTheme": theme });
    await page.reload();
    await window.profiled();
    await there(view.locator(`body.${CLASSES[name]}`));
    await view.locator("h1").scrollIntoViewIfNeeded();
    await page.locator(".monaco-editor .view-line", { hasText: "x = torch.relu" }).first().click();
    await page.mouse.move(700, 790);
    await page.waitForTimeout(2500);
    await page.screenshot({ path: path.join(folder, `vscode-${name}.png`) });
  }
  const frames = [];
  const clip = { x: 0, y: 34, width: 1000, height: 620 };
  const shoot = async (times = 1) => {
    const frame = await page.screenshot({ clip });
    for (let time = 0; time < times; time += 1) frames.push(frame);
  };
  const before = await batchSizeInCode(window);
  const box = await view.locator('[data-bar="throughput"] .track').boundingBox();
  const handle = await view.locator('[data-bar="throughput"] .handle').boundingBox();
  const y = box.y + box.height / 2;
  await shoot(5);
  await page.mouse.move(handle.x + 2, y);
  await page.mouse.down();
  const [from, to] = [handle.x + 2, box.x + box.width * 0.95];
  for (let step = 1; step <= 14; step += 1) {
    await page.mouse.move(from + ((to - from) * step) / 14, y);
    await page.waitForTimeout(60);
    await shoot();
  }
  await page.mouse.up();
  await until(async () => (await batchSizeInCode(window)) !== before, "the number was not written");
  await page.waitForTimeout(600);
  await shoot(9);
  await window.undo("batch_size=");
  await page.waitForTimeout(800);
  await shoot(6);
  fs.writeFileSync(path.join(folder, "vscode-drag.png"), animated(frames, 140));
}

async function batchSizeInCode(window) {
  return Number(/batch_size=(\d+)/.exec(await window.line("batch_size="))?.[1]);
}
