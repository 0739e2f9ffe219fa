"""The meaning of date columns by their names: when a page changed, when it was created, or neither.

The words are from the schemas of these systems, and from exports in the languages below.

    shops         Shopify, WooCommerce, Magento, PrestaShop, BigCommerce, OpenCart, osCommerce, Shopware, nopCommerce,
                  Sylius, Spree, Medusa, Saleor, commercetools, Salesforce Commerce, SAP Commerce, Ecwid
    contents      WordPress, Drupal, Joomla, TYPO3, Craft, Contentful, Strapi, Sanity, Directus, Ghost, Wagtail,
                  Umbraco, Kentico, Silverstripe, AEM, Squarespace, Webflow, Wix, MediaWiki
    repositories  DSpace, EPrints, Dataverse, Invenio, Fedora, Omeka, Koha, OJS
    loaders       Airbyte, Fivetran, Stitch, dlt, dbt, Hudi, Meltano; crawls of Screaming Frog and Sitebulb
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final, Literal

Meaning = Literal["change", "never", "begin", "span"]
"""Meaning of a date. `change`: of the last change. `never`: of a load, a crawl, a login, an expiry, a birth.

`begin`: since when the page exists. `span`: start or end of something else, such as an offer.
"""

_LETTERS: Final = str.maketrans({"ß": "ss", "æ": "ae", "ø": "o", "ł": "l", "đ": "d", "ı": "i", "œ": "oe"})

_NEVER: Final = """
    load batched ingest etl elt dwh? warehouse stag(?:ed|ing) airbyte fivetran sdc dlt dbt hoodie meltano rivery
    matillion partition snapshot sync extract(?:ed|ion) emitted replicat crawl scrap fetch spider import(?!an)
    export download upload process(?:ed|ing) receiv index(?:ed|ing) cached? backup generated render
    log(?:in|on|out|ged) sign(?:ed)?_?in session visit(?:ed)? seen view(?:ed)? order(?:ed)? purchas(?:ed|e) sold
    expir avail availab restock deliver ship(?:ped|ping|ment)
    birth birthday dob born delet(?:ed|ion) remov(?:ed|al) check(?:ed)?(?:_|$)
    geladen ladedat ladezeit abgerufen ausgelesen anmeld angemeld einlogg gultig gueltig ablauf abgelaufen
    verfugbar verfuegbar lieferbar geburt geloscht geloescht besuch
    charge(?:e|ment)?(?:_|$) extrait connexion visite disponib naissance echeance peremption suppr
    carga(?:_|$|d) extraid extracc caduc venc acceso inicio_(?:de_)?sesion nacim eliminad
    caricat caricam estra(?:tt|zion) scaden accesso nascita
    carreg acesso nascim validade
    opgehaald beschikbaar verval verloop geboorte aangemeld ingelogd
    laddad hamtad tillganglig utgang inlogg fodelse indlaest hentet tilgaengelig tilgjengelig udlob utlop fodsel
    zaladow pobran dostep wygas waznosc urodz logowan nacten stazen dostupn platnost naroz prihlas
    ladattu haettu saatavill vanhene voimassa syntym kirjautu yuklen gecerli dogum giris senkron
    """
_NEVER_INSIDE: Final = """
    export import(?!an) crawl synchron verfugbar verfuegbar geburt ablaufdat gultig(?:_?bis|_?ab|keit)
    загруз выгруз импорт экспорт синхрон доступн истек срок рожд вход
    取込 読込 同期 取得 抽出 ログイン 有効 期限 発売 販売 誕生 生年 クロール 出力 入荷
    导入 導入 导出 匯出 匯入 加载 载入 同步 抓取 采集 提取 登录 登入 过期 到期 有效 上架 出生 生日
    가져오 내보내 동기화 수집 추출 크롤 로그인 만료 유효 출생 생년 생일 판매
    """
_CHANGE: Final = """
    lastmod last_?mod last_(?:publish|edit|touch|commit) upd maj(?:_|$) mtime tstamp lm(?:_|$) edit(?:ed)?(?:_|$)
    amend revis(?:ed|ion) rev_(?:timestamp|date|time) cambio cambi(?:ad|at) change chg mod(?:_|$|date|time)
    muut ret(?:tet|ting)(?:_|$) rettet
    """
_CHANGE_INSIDE: Final = """
    lastmod updat modif (?<!ex)(?<!inter)chang(?:e|ed|es|ing|time) revis(?:ed|ion)
    ander(?:t|ung) aender(?:t|ung) geandert geaendert bearbeitet aktualis uberarbeit ueberarbeit
    mise_a_j mise_jour actualis editad aggiorn atualiz alterac alterad actualiz
    gewijzig wijzig bijgewerkt aangepast andrad andring uppdat aendret endret opdater oppdat redigeret
    muokat muokk muuttun paivitet paivity zmian zmien modyf edycj aktualiz zmen uprav modosit frissit
    guncel degis duzenle измен обновл правк редакт змін оновл
    更新 変更 修正 改訂 修改 变更 變更 编辑 編輯 수정 변경 갱신 업데이트 تعديل تحديث עדכון
    """
_BEGIN: Final = """
    creat crdate insert add(?:ed)?(?:_|$) publi pub(?:_|$|date) post_date posted releas launch regist written
    first_ initial live_ issued
    angelegt erstellt erschein anlage veroffent veroeffent eingestellt
    cree(?:_|$|_le) ajout paru parution creac cread criac criad creaz inserit pubbl
    aangemaakt gepubl skapad publ opprettet oprettet luotu julkais utworz doda(?:no|nia|tu) vytvor pridan olustur yayin
    """
_BEGIN_INSIDE: Final = """
    созда опублик добавл створ 作成 登録 公開 投稿 发布 發布 创建 創建 添加 등록 생성 작성 게시
    """
_SPAN: Final = """
    from(?:_|$) until till to(?:_|$) since(?:_|$) start begin end(?:s|ed|ing)?(?:_|$) stop valid due deadline event
    season bis(?:_|$) ab(?:_|$) von(?:_|$) beginn ende(?:_|$) desde hasta debut fin(?:_|$) dal(?:_|$) inizio
    fine(?:_|$) inicio offer sale promo special reserv book
    """


def _alternatives(words: str, before: str) -> str:
    return before + "(?:" + "|".join(unicodedata.normalize("NFC", _bare(word)) for word in words.split()) + ")"


def _bare(text: str) -> str:
    """Return the text in lower case and without diacritics."""
    letters = unicodedata.normalize("NFKD", text).translate(_LETTERS)
    return unicodedata.normalize("NFC", "".join(one for one in letters if unicodedata.category(one) != "Mn"))


def _either(words: str, inside: str) -> re.Pattern[str]:
    """Return a pattern of words at the start of a name's part, and of words anywhere in it."""
    return re.compile(_alternatives(words, "(?:^|_)") + "|" + _alternatives(inside, ""))


_MEANINGS: Final[tuple[tuple[Meaning, re.Pattern[str]], ...]] = (
    ("never", _either(_NEVER, _NEVER_INSIDE)),
    ("change", _either(_CHANGE, _CHANGE_INSIDE)),
    ("begin", _either(_BEGIN, _BEGIN_INSIDE)),
    ("span", re.compile(_alternatives(_SPAN, "(?:^|_)"))),
)
"""Meanings in order.

The first match counts: `_etl_updated_at` is about a load, `latest_revision_created_at` a change.
"""


def meaning_of(name: str) -> Meaning | None:
    """Return the meaning of a column's dates by its name, or None if the name doesn't tell."""
    plain = _plain(name)
    return next((meaning for meaning, pattern in _MEANINGS if pattern.search(plain)), None)


def is_of_a_crawl(name: str) -> bool:
    """Return True if a column's dates come from a crawl, by its name."""
    return re.search("(?:^|_)(?:crawl|scrap|spider)", _plain(name)) is not None


def _plain(name: str) -> str:
    """Return a name as words in lower case, with `_` between them."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.sub(r"[\W_]+", "_", _bare(words).lower()).strip("_")
