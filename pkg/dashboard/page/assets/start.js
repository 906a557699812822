// Starts the scripts of a page.
import { startClock } from "./clock.js";
import { startCopy } from "./copy.js";
import { startCount } from "./count.js";
import { startForms } from "./forms.js";
import { startCharts } from "./chart.js";
import { startKeys } from "./keys.js";
import { startLetters } from "./letters.js";
import { startLive } from "./live.js";
import { startRedrive } from "./redrive.js";
import { startSearch } from "./search.js";
import { startSeek } from "./seek.js";
import { startTabs } from "./tabs.js";

export function start() {
  startTabs();
  startClock();
  startCopy();
  startForms();
  startCount();
  startCharts();
  startKeys();
  startLetters();
  startLive();
  startRedrive();
  startSearch();
  startSeek();
}
