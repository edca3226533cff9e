// Common parts of all pages: unpacking their data, starting their parts, and their heads.

/**
 * Unpack the data and start the page with it; show a message if that fails.
 * @param {string[]} names of the data blocks
 * @param {function} start called with their bytes, in this order
 */
async function openPage(names, start) {
  byId("state").textContent = "Opening …";
  byId("controls").hidden = false;
  startPrinting();
  setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  try {
    start(...(await Promise.all(names.map(unpacked))));
    byId("main").setAttribute("aria-busy", "false");
    requestAnimationFrame(() => performance.mark("opened"));
  } catch (error) {
    byId("state").hidden = false;
    byId("state").textContent = typeof DecompressionStream === "undefined"
      ? "This browser cannot unpack the page: it needs DecompressionStream (Chromium 80, Firefox 113, Safari 16.4)."
      : `This page could not be shown: ${error.message}`;
    throw error;
  }
}

/** Title and warnings, and the controls that all pages have. */
function startHead(title, warnings) {
  document.title = `${shown(title)} - Prospect`;
  byId("title").textContent = byId("title").title = shown(title);
  byId("warnings").hidden = !warnings.length;
  byId("warnings").replaceChildren(...warnings.map((line) => make("p.warning", {}, shown(line))));
  byId("search").addEventListener("input", (event) => search(event.target.value));
  byId("theme").addEventListener("click", changeTheme);
  byId("help-open").addEventListener("click", () => byId("help").showModal());
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  tell("theme");
}

/** On paper the page is light. */
function startPrinting() {
  let before = "light";
  addEventListener("beforeprint", () => {
    before = document.documentElement.dataset.theme;
    setTheme("light");
    if (view.event) drawFlame();
  });
  addEventListener("afterprint", () => setTheme(before));
}

const changeTheme = () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
