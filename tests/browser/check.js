// Opens a report in Chromium and checks what a reader gets: node check.js CHROMIUM REPORT [DIRECTORY FOR PICTURES]
import assert from "node:assert/strict";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const [executablePath, report, shots] = process.argv.slice(2);

const CHARTS = ["traffic", "reads", "writes", "reactions", "charge"];
const PHASES = 7;
const VIEWS = [
  { colorScheme: "light", width: 1280 },
  { colorScheme: "dark", width: 1280 },
  { colorScheme: "light", width: 360 },
  { colorScheme: "dark", width: 360 },
];

// What the page is like, as the browser laid it out.
function measure() {
  const box = (element) => element.getBoundingClientRect();
  const rgb = (text) => text.match(/[\d.]+/g).slice(0, 3).map(Number);
  // Relative luminance and contrast ratio: WCAG 2.2, section 1.4.3.
  const luminance = (colour) => {
    const [r, g, b] = colour.map((part) => part / 255).map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (first, second) => {
    const [high, low] = [luminance(first), luminance(second)].sort((a, b) => b - a);
    return (high + 0.05) / (low + 0.05);
  };
  const background = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (!colour.startsWith("rgba") || !colour.endsWith(", 0)")) return rgb(colour);
    }
    return [255, 255, 255];
  };
  const texts = [...document.querySelectorAll("h1, h2, h3, p, td, th, li, caption, code")];
  const labels = [...document.querySelectorAll("svg text")];
  const weakest = (elements, colour) =>
    Math.min(...elements.map((element) => contrast(rgb(getComputedStyle(element)[colour]), background(element))));
  return {
    charts: [...document.querySelectorAll("svg.chart")].map((svg) => ({
      id: svg.id,
      width: box(svg).width,
      height: box(svg).height,
      title: svg.querySelector("title")?.textContent,
      label: (svg.getAttribute("aria-labelledby") ?? "").split(" ").every((id) => document.getElementById(id)),
      bands: svg.querySelectorAll("rect.band").length,
      drawn: [...svg.querySelectorAll(".area, .line, .bar")].filter((shape) => box(shape).width > 0).length,
    })),
    rows: document.querySelectorAll("tbody tr").length,
    verdict: document.querySelector("#verdict h2").textContent,
    injected: document.querySelectorAll("b").length,
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    paper: luminance(background(document.body)),
    contrast: Math.min(weakest(texts, "color"), weakest(labels, "fill")),
  };
}

async function check(browser, view) {
  const { colorScheme, width } = view;
  const page = await browser.newPage({ colorScheme, viewport: { width, height: 900 } });
  const complaints = [];
  page.on("console", (message) => complaints.push(`${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => complaints.push(`error: ${error.message}`));
  page.on("request", (request) => {
    if (!/^(file|data):/.test(request.url())) complaints.push(`it loads ${request.url()}`);
  });
  await page.goto(pathToFileURL(report).href);
  const found = await page.evaluate(measure);
  if (shots) await page.screenshot({ path: path.join(shots, `${colorScheme}-${width}.png`), fullPage: true });
  await page.close();

  assert.deepEqual(complaints, []);
  assert.deepEqual(found.charts.map((chart) => chart.id), CHARTS);
  for (const chart of found.charts) {
    assert.ok(chart.width > 300 && chart.height > 100, `${chart.id} is ${chart.width} by ${chart.height}`);
    assert.ok(chart.title && chart.label, `${chart.id} has a title that is read out`);
    assert.equal(chart.bands, PHASES, `${chart.id} shows the phases`);
    assert.ok(chart.drawn > 0, `${chart.id} shows something`);
  }
  assert.equal(found.verdict, "Exactly once");
  assert.ok(found.rows >= 2 * PHASES, "both tables of the phases are there");
  assert.equal(found.injected, 0, "a region's name is text");
  assert.equal(found.overflow, 0, "the page itself does not scroll sideways");
  assert.equal(found.paper < 0.2, colorScheme === "dark", `the background's luminance is ${found.paper}`);
  assert.ok(found.contrast >= 4.5, `the weakest text has a contrast of ${found.contrast.toFixed(2)}`);
}

// The sandbox of the browser does not work for root or in most containers; the page is our own.
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
let failed = 0;
try {
  for (const view of VIEWS) {
    const name = `${view.colorScheme}, ${view.width} pixels wide`;
    try {
      await check(browser, view);
      console.log(`  ok  ${name}`);
    } catch (error) {
      failed += 1;
      console.log(`  FAILED  ${name}: ${error.message}`);
    }
  }
} finally {
  await browser.close();
}
console.log(`${VIEWS.length - failed} of ${VIEWS.length} passed`);
process.exitCode = failed ? 1 : 0;
