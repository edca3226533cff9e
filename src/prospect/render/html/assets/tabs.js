// Tabs over the tables. Source: ARIA Authoring Practices Guide, tabs pattern.

/**
 * Fill the row of tabs.
 * @param {string[][]} tabs name and title of each
 * @param {object} state: `shown` is the name of the tab that is open
 * @param {function} fill called when another was chosen
 */
function fillTabs(tabs, state, fill) {
  const open = (name) => {
    state.shown = name;
    fill();
    byId(`tab-${name}`).focus();
  };
  byId("tabs").replaceChildren(...tabs.map(([name, title]) => {
    const isShown = name === state.shown;
    return make("button", {
      type: "button", role: "tab", id: `tab-${name}`, tabIndex: isShown ? 0 : -1,
      "aria-selected": String(isShown), "aria-controls": "panel", onclick: () => open(name),
    }, title);
  }));
  byId("panel").setAttribute("aria-labelledby", `tab-${state.shown}`);
  byId("tabs").onkeydown = (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    const at = tabs.findIndex(([name]) => name === state.shown);
    open(tabs[(at + step + tabs.length) % tabs.length][0]);
  };
}
