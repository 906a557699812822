// Starts the scripts of a page.
import { startClock } from "./clock.js";
import { startCopy } from "./copy.js";
import { startForms } from "./forms.js";
import { startCharts } from "./chart.js";
import { startKeys } from "./keys.js";
import { startLive } from "./live.js";
import { startRedrive } from "./redrive.js";
import { startSearch } from "./search.js";

export function start() {
  startClock();
  startCopy();
  startForms();
  startCharts();
  startKeys();
  startLive();
  startRedrive();
  startSearch();
}
